// llama.cpp's tokenizer behind two small modes, for goldens and for measuring against. Built with -DLLMINFER_PEER=DIR,
// DIR being a llama.cpp checkout with libraries in build/bin.
//
// peer_tokenize ids VOCABULARY            lines of standard input, a text each as hexadecimal digits, to lines of ids
// peer_tokenize time VOCABULARY FILE...   best of several runs: a line "FILE tokens seconds" each
#include <llama.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

namespace {

std::vector<llama_token> tokenize(const llama_vocab* vocab, const std::string& text) {
  std::vector<llama_token> ids(text.size() + 8);
  const auto call = [&] {
    return llama_tokenize(vocab, text.data(), static_cast<std::int32_t>(text.size()), ids.data(),
                          static_cast<std::int32_t>(ids.size()), false, false);
  };
  std::int32_t count = call();
  if (count < 0) {
    ids.resize(static_cast<std::size_t>(-count));
    count = call();
  }
  ids.resize(static_cast<std::size_t>(count));
  return ids;
}

void print_ids(const llama_vocab* vocab) {
  for (std::string line; std::getline(std::cin, line);) {
    std::string text;
    for (std::size_t i = 0; i + 1 < line.size(); i += 2) {
      text += static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16));
    }
    const char* separator = "";
    for (const llama_token id : tokenize(vocab, text)) {
      std::printf("%s%d", separator, id);
      separator = " ";
    }
    std::printf("\n");
  }
}

void time_files(const llama_vocab* vocab, char** files, int count) {
  for (int i = 0; i < count; ++i) {
    std::ifstream stream(files[i], std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    double best = 1e9;
    std::size_t tokens = 0;
    for (int run = 0; run < 3; ++run) {
      const auto start = std::chrono::steady_clock::now();
      tokens = tokenize(vocab, text).size();
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::printf("%s %zu %.6f\n", files[i], tokens, best);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  llama_model* model = llama_model_load_from_file(argv[2], params);
  if (!model) return 1;
  const llama_vocab* vocab = llama_model_get_vocab(model);
  if (std::string(argv[1]) == "ids") {
    print_ids(vocab);
  } else {
    time_files(vocab, argv + 3, argc - 3);
  }
  llama_model_free(model);
  return 0;
}
