// All ids of all vocabulary files, and of the real models' goldens.
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.h"
#include "vocab_files.h"

namespace llminfer::test {

TEST_CASE("ids equal those of the vocabulary files") {
  const auto shared = shared_folder();
  if (!shared) return;
  for (const char* name :
       {"bert-bge", "deepseek-coder", "falcon", "gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2", "starcoder"}) {
    INFO(name);
    const auto tokenizer = open_vocab(name);
    REQUIRE(tokenizer);
    const std::string file = (*shared / "vocab" / ("ggml-vocab-" + std::string(name) + ".gguf")).string();
    const std::vector<std::string> texts = split(read_text(file + ".inp"), "\n__ggml_vocab_test__\n");
    std::istringstream expected(read_text(file + ".out"));
    REQUIRE(texts.size() == 46);
    for (const std::string& text : texts) {
      INFO(text);
      std::string line;
      REQUIRE(std::getline(expected, line));
      std::istringstream numbers(line);
      std::vector<Token> ids;
      for (Token id = 0; numbers >> id;) ids.push_back(id);
      CHECK(tokenizer->encode(text, bare) == ids);
    }
  }
}

TEST_CASE("ids equal those of the real models' goldens") {
  const auto shared = shared_folder();
  if (!shared) return;
  for (const char* name : {"smollm2-135m-q4_1", "qwen-0.5b-q4", "gemma3-270m-q4_k_m"}) {
    const auto tokenizer = open_model_vocab(std::string(name) + ".gguf");
    if (!tokenizer) continue;
    INFO(name);
    std::size_t rows = 0;
    for (const std::string& line : split(read_text(*shared / "golden" / (std::string(name) + ".jsonl")), "\n")) {
      const auto row = nlohmann::json::parse(line);
      const std::string text = row.at("text");
      INFO(text);
      CHECK(tokenizer->encode(text, {SpecialText::parse}) == row.at("tokens").get<std::vector<Token>>());
      ++rows;
    }
    CHECK(rows >= 10);
  }
}

}  // namespace llminfer::test
