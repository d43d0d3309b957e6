// One tokenizer, several threads.
#include <thread>

#include "catch.h"
#include "vocab_files.h"

namespace llminfer::test {

TEST_CASE("threads share a tokenizer") {
  for (const char* name : {"qwen2", "llama-spm", "bert-bge"}) {
    const auto tokenizer = open_vocab(name);
    if (!tokenizer) return;
    const std::string text = read_text(*shared_folder() / "vocab" / "ggml-vocab-qwen2.gguf.inp");
    const std::vector<Token> expected = tokenizer->encode(text, bare_parse);
    const std::string decoded = tokenizer->decode(expected);
    std::vector<int> equal(4, 0);
    std::vector<std::thread> threads;
    for (int& count : equal) {
      threads.emplace_back([&] {
        for (int round = 0; round < 20; ++round) {
          const std::vector<Token> tokens = tokenizer->encode(text, bare_parse);
          count += tokens == expected && tokenizer->decode(tokens) == decoded;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(equal == std::vector<int>(4, 20));
  }
}

}  // namespace llminfer::test
