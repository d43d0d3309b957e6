#include "vocab_files.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <llminfer/model_source.hpp>

#include "catch.h"
#include "format/model_file.h"

namespace llminfer::test {
namespace {

std::unique_ptr<text::Tokenizer> open_file(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) {
    WARN("skipped: " << file.string() << " is absent");
    return nullptr;
  }
  return std::make_unique<text::Tokenizer>(read_spec(file));
}

}  // namespace

std::optional<std::filesystem::path> shared_folder() {
  const char* shared = std::getenv("LLMINFER_SHARED");
  if (shared && std::filesystem::exists(shared)) return std::filesystem::path(shared);
  WARN("skipped: LLMINFER_SHARED names no folder");
  return std::nullopt;
}

std::unique_ptr<text::Tokenizer> open_vocab(const std::string& name) {
  const auto shared = shared_folder();
  return shared ? open_file(*shared / "vocab" / ("ggml-vocab-" + name + ".gguf")) : nullptr;
}

std::unique_ptr<text::Tokenizer> open_model_vocab(const std::string& file) {
  const char* models = std::getenv("LLMINFER_MODELS");
  return open_file(std::filesystem::path(models ? models : "") / file);
}

text::TokenizerSpec read_spec(const std::filesystem::path& file) {
  return format::ModelFile::open(ModelSource::file(file)).tokenizer();
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find(separator, begin)) != std::string::npos; begin = end + separator.size()) {
    parts.push_back(text.substr(begin, end - begin));
  }
  if (begin < text.size()) parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace llminfer::test
