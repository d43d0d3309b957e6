// The vocabularies of the shared folder and the real models, where they are on this machine.
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "catch.h"
#include "format/model_file.h"

namespace llminfer::format {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const char* variable, const char* folder) {
  std::vector<fs::path> files;
  const char* const root = std::getenv(variable);
  std::error_code ignored;
  if (!root) return files;
  for (const auto& entry : fs::directory_iterator(fs::path(root) / folder, ignored)) {
    if (entry.path().extension() == ".gguf") files.push_back(entry.path());
  }
  return files;
}

TEST_CASE("vocabulary-only files open") {
  const std::vector<fs::path> files = files_in("LLMINFER_SHARED", "vocab");
  if (files.empty()) WARN("skipped: no vocabularies in LLMINFER_SHARED");
  for (const fs::path& path : files) {
    INFO(path.string());
    const ModelFile file = ModelFile::open(ModelSource::file(path));
    CHECK(file.tensors().empty());
    CHECK_FALSE(file.tokenizer().family.empty());
    CHECK(file.tokenizer().tokens.size() > 25000);
    CHECK(file.tokenizer().bos);
    CHECK(file.hyper_parameters().block_count > 0);
  }
}

TEST_CASE("real models open, with all tensors known") {
  const std::vector<fs::path> files = files_in("LLMINFER_MODELS", "");
  if (files.empty()) WARN("skipped: no models in LLMINFER_MODELS");
  for (const fs::path& path : files) {
    INFO(path.string());
    const auto start = std::chrono::steady_clock::now();
    const ModelFile file = ModelFile::open(ModelSource::file(path));
    const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
    WARN(path.filename().string() << ": " << file.tokenizer().tokens.size() << " tokens, " << file.tensors().size()
                                  << " tensors in " << spent.count() << " ms");
    const HyperParameters hyper = file.hyper_parameters();
    CHECK(hyper.rms_eps);
    const std::int64_t width = hyper.embedding_length;
    for (const TensorInfo& tensor : file.tensors()) {
      INFO(std::string(tensor.name));
      CHECK(tensor.role != Role::unknown);
    }
    file.require(Role::token_embd, -1, {width, static_cast<std::int64_t>(file.tokenizer().tokens.size())});
    for (int layer = 0; layer < hyper.block_count; ++layer) {
      file.require(Role::attn_q, layer, {width, std::int64_t{hyper.head_count(layer)} * hyper.key_length});
      file.require(Role::attn_v, layer, {width, std::int64_t{hyper.head_count_kv(layer)} * hyper.value_length});
      file.require(Role::ffn_down, layer, {hyper.feed_forward_length(layer), width});
    }
  }
}

}  // namespace
}  // namespace llminfer::format
