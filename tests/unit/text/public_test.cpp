// The public class: errors are values.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <llminfer/model_source.hpp>
#include <llminfer/tokenizer.hpp>

#include "catch.h"

namespace llminfer::test {

TEST_CASE("the public tokenizer gives values and errors") {
  const char* shared = std::getenv("LLMINFER_SHARED");
  const std::filesystem::path file =
      std::filesystem::path(shared ? shared : "") / "vocab" / "ggml-vocab-llama-spm.gguf";
  if (!std::filesystem::exists(file)) {
    WARN("skipped: " << file.string() << " is absent");
    return;
  }
  const Result<Tokenizer> opened = Tokenizer::open(ModelSource::file(file));
  REQUIRE(opened);
  const Tokenizer tokenizer = *opened;
  CHECK(tokenizer.encode("Hello").value() == std::vector<Token>{1, 15043});
  CHECK(tokenizer.decode(tokenizer.encode("Hello world").value(), {false}).value() == "Hello world");
  CHECK(tokenizer.decode(std::vector<Token>{1, 15043}).value() == "<s>Hello");
  CHECK(tokenizer.token_to_bytes(15043).value() == " Hello");
  CHECK(tokenizer.token_to_bytes(13).value() == "\n");
  CHECK(tokenizer.size() == 32000);
  CHECK(tokenizer.bos() == Token{1});
  CHECK(tokenizer.eos() == Token{2});
  CHECK(tokenizer.find("</s>") == Token{2});
  CHECK_FALSE(tokenizer.find("no such token"));
  CHECK(tokenizer.adds_bos());
  CHECK_FALSE(tokenizer.adds_eos());
  REQUIRE(tokenizer.stop_tokens().size() == 1);
  CHECK(tokenizer.stop_tokens()[0] == 2);
  for (const Token id : {-1, 32000, 2147483647}) {
    const Result<std::string_view> bytes = tokenizer.token_to_bytes(id);
    REQUIRE_FALSE(bytes);
    CHECK(bytes.error().code == ErrorCode::invalid_argument);
    CHECK(bytes.error().where == std::string("Tokenizer::token_to_bytes"));
    CHECK_FALSE(tokenizer.decode(std::vector<Token>{1, id}));
  }
  const std::vector<TextSpan> spans{{"<s>", true}, {"<s>", false}};
  const std::vector<Token> tokens = tokenizer.encode_spans(spans).value();
  CHECK(tokens.front() == 1);
  CHECK(std::count(tokens.begin(), tokens.end(), 1) == 1);
}

TEST_CASE("opening what is no vocabulary is an error") {
  CHECK(Tokenizer::open(ModelSource::file("/nonexistent/vocabulary.gguf")).error().code == ErrorCode::not_found);
  const std::vector<std::byte> noise(64, std::byte{0x42});
  CHECK(Tokenizer::open(ModelSource::memory(noise)).error().code == ErrorCode::not_gguf);
}

}  // namespace llminfer::test
