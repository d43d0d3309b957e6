// llama.cpp's logits by its defaults, for logit_divergence. Built with -DLLMINFER_PEER=DIR, as peer_tokenize is.
//
// peer_logits MODEL [THREADS]   lines of standard input, ids of a text each, to rows of float32 [vocabulary], one for
//                               each id, on standard output
#include <llama.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int longest = 4096;  // ids of a line

std::vector<llama_token> ids_of(const std::string& line) {
  std::vector<llama_token> ids;
  std::istringstream in(line);
  for (llama_token id = 0; in >> id;) ids.push_back(id);
  return ids;
}

/// All of a text at once, from nothing.
bool write_rows(llama_context* context, std::vector<llama_token>& ids, std::size_t vocabulary) {
  llama_memory_clear(llama_get_memory(context), true);
  llama_batch batch = llama_batch_init(static_cast<std::int32_t>(ids.size()), 0, 1);
  batch.n_tokens = static_cast<std::int32_t>(ids.size());
  for (std::int32_t i = 0; i < batch.n_tokens; ++i) {
    batch.token[i] = ids[static_cast<std::size_t>(i)];
    batch.pos[i] = i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  bool good = llama_decode(context, batch) == 0;
  for (std::int32_t i = 0; good && i < batch.n_tokens; ++i) {
    good = std::fwrite(llama_get_logits_ith(context, i), sizeof(float), vocabulary, stdout) == vocabulary;
  }
  llama_batch_free(batch);
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (!model) return 1;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = longest;
  params.n_batch = longest;
  if (argc > 2) params.n_threads = params.n_threads_batch = std::atoi(argv[2]);
  llama_context* context = llama_init_from_model(model, params);
  if (!context) return 1;
  const auto vocabulary = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
  bool good = true;
  for (std::string line; good && std::getline(std::cin, line);) {
    std::vector<llama_token> ids = ids_of(line);
    good = !ids.empty() && ids.size() <= longest && write_rows(context, ids, vocabulary);
  }
  llama_free(context);
  llama_model_free(model);
  return good ? 0 : 1;
}
