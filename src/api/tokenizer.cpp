#include "text/tokenizer.h"

#include <llminfer/model_source.hpp>
#include <llminfer/tokenizer.hpp>

#include "api/guard.h"
#include "core/fail.h"
#include "format/model_file.h"

namespace llminfer {
inline namespace v0 {

using api::guard;

Tokenizer::Tokenizer(std::shared_ptr<const text::Tokenizer> body) noexcept : body_(std::move(body)) {}

Result<Tokenizer> Tokenizer::open(const ModelSource& source) {
  return guard("Tokenizer::open", [&] {
    const format::ModelFile file = format::ModelFile::open(source);
    if (file.tokenizer().family.empty()) core::fail(ErrorCode::not_found, "the file has no tokenizer");
    return Tokenizer(std::make_shared<const text::Tokenizer>(file.tokenizer()));
  });
}

Result<std::vector<Token>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  return guard("Tokenizer::encode", [&] { return body_->encode(text, options); });
}

Result<Encoding> Tokenizer::encode_ranges(std::string_view text, EncodeOptions options) const {
  return guard("Tokenizer::encode_ranges", [&] { return body_->encode_ranges(text, options); });
}

Result<std::vector<Token>> Tokenizer::encode_spans(std::span<const TextSpan> spans, EncodeOptions options) const {
  return guard("Tokenizer::encode_spans", [&] { return body_->encode_spans(spans, options); });
}

Result<std::string> Tokenizer::decode(std::span<const Token> tokens, DecodeOptions options) const {
  return guard("Tokenizer::decode", [&] { return body_->decode(tokens, options); });
}

Result<std::string_view> Tokenizer::token_to_bytes(Token token) const {
  return guard("Tokenizer::token_to_bytes", [&] {
    body_->vocabulary().check(token);
    return body_->vocabulary().bytes(token);
  });
}

std::optional<Token> Tokenizer::find(std::string_view spelling) const noexcept {
  const Token id = body_->vocabulary().find(spelling);
  return id < 0 ? std::nullopt : std::optional<Token>(id);
}

int Tokenizer::size() const noexcept { return body_->vocabulary().size(); }
std::optional<Token> Tokenizer::bos() const noexcept { return body_->vocabulary().bos(); }
std::optional<Token> Tokenizer::eos() const noexcept { return body_->vocabulary().eos(); }
std::optional<Token> Tokenizer::unknown() const noexcept { return body_->vocabulary().unk(); }
bool Tokenizer::is_control(Token token) const noexcept { return body_->vocabulary().is_control(token); }
std::span<const Token> Tokenizer::stop_tokens() const noexcept { return body_->vocabulary().stop_tokens(); }
bool Tokenizer::adds_bos() const noexcept { return body_->vocabulary().adds_bos(); }
bool Tokenizer::adds_eos() const noexcept { return body_->vocabulary().adds_closing(); }

}  // namespace v0
}  // namespace llminfer
