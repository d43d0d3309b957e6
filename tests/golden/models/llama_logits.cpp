// Writes the goldens of this folder: logits that llama.cpp computes for a model file and a list of tokens. Not part of
// the build; make_models.py says how to compile it against a llama.cpp tree.
//
// usage: llama_logits MODEL CONTEXT TOKEN,TOKEN,... EVERY OUT.golden
// The cache is float32 and flash attention is off, so that with float32 weights all but GELU (a float16 table there) is
// float32 arithmetic. See golden_file.h for the layout of the output.
#include <llama.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

void write_int(std::FILE* out, std::int32_t value) { std::fwrite(&value, sizeof value, 1, out); }

std::vector<llama_token> parse(const char* text) {
  std::vector<llama_token> tokens;
  for (char* next = nullptr; *text != '\0'; text = *next == ',' ? next + 1 : next) {
    tokens.push_back(static_cast<llama_token>(std::strtol(text, &next, 10)));
  }
  return tokens;
}

int fail(const char* what) {
  std::fprintf(stderr, "llama_logits: %s\n", what);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return fail("usage: llama_logits MODEL CONTEXT TOKENS EVERY OUT");
  const auto context = static_cast<std::uint32_t>(std::atoi(argv[2]));
  std::vector<llama_token> tokens = parse(argv[3]);
  const int every = std::atoi(argv[4]);
  if (std::getenv("LLAMA_LOGITS_VERBOSE") == nullptr) llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  ggml_backend_load_all();
  llama_model_params model_params = llama_model_default_params();
  llama_model* model = llama_model_load_from_file(argv[1], model_params);
  if (model == nullptr) return fail("cannot load the model");
  llama_context_params params = llama_context_default_params();
  params.n_ctx = context;
  params.n_batch = params.n_ubatch = static_cast<std::uint32_t>(tokens.size());
  params.n_threads = params.n_threads_batch = 1;
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.swa_full = true;
  llama_context* ctx = llama_init_from_model(model, params);
  if (ctx == nullptr) return fail("cannot make a context");

  const auto n = static_cast<std::int32_t>(tokens.size());
  llama_batch batch = llama_batch_init(n, 0, 1);
  batch.n_tokens = n;
  std::vector<std::int32_t> positions;
  for (std::int32_t i = 0; i < n; ++i) {
    batch.token[i] = tokens[static_cast<std::size_t>(i)];
    batch.pos[i] = i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = i % every == 0 || i + 1 == n;
    if (batch.logits[i] != 0) positions.push_back(i);
  }
  if (llama_decode(ctx, batch) != 0) return fail("llama_decode failed");

  std::FILE* out = std::fopen(argv[5], "wb");
  if (out == nullptr) return fail("cannot write the output");
  const std::int32_t vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  write_int(out, 0x474f4c44);
  write_int(out, static_cast<std::int32_t>(context));
  write_int(out, n);
  for (const llama_token token : tokens) write_int(out, token);
  write_int(out, static_cast<std::int32_t>(positions.size()));
  write_int(out, vocabulary);
  for (const std::int32_t position : positions) {
    write_int(out, position);
    std::fwrite(llama_get_logits_ith(ctx, position), sizeof(float), static_cast<std::size_t>(vocabulary), out);
  }
  std::fclose(out);
  llama_batch_free(batch);
  llama_free(ctx);
  llama_model_free(model);
  return 0;
}
