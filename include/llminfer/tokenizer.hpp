// Text to tokens and back, without weights: also opens files that hold only a vocabulary.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <llminfer/error.hpp>
#include <llminfer/export.hpp>
#include <llminfer/types.hpp>

namespace llminfer {
namespace text {
class Tokenizer;  // the implementation
}
inline namespace v0 {

class ModelSource;

/// What spellings of control tokens ("<|im_end|>") in a text mean. User-defined tokens ("<think>") are one id always.
enum class SpecialText {
  none,           ///< ordinary text: for everything that users write
  parse,          ///< the control tokens themselves
  template_text,  ///< the text of a rendered chat template: as parse, with exactly one BOS where the model wants one
};

/// Whether encode adds a token that the text does not spell.
enum class AddToken {
  automatic,  ///< as the model file says (or, where it is silent, as its tokenizer family does)
  yes,        ///< always; an error if the model has no such token
  no,
};

/// How to encode.
struct EncodeOptions {
  SpecialText special = SpecialText::none;
  AddToken bos = AddToken::automatic;  ///< BOS or CLS; never doubled when the text itself begins with it
  AddToken eos = AddToken::automatic;  ///< EOS or SEP; never doubled when the text itself ends with it
};

/// How to decode.
struct DecodeOptions {
  bool special = true;  ///< spell out control tokens; false leaves them out
};

/// A piece of a rendered template: control tokens are recognised in markup only.
struct TextSpan {
  std::string_view text;
  bool markup = false;
};

/// Half-open range of bytes of the text a token came from; empty for tokens that encode added.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Tokens with their origin: ranges[i] belongs to tokens[i]. Ranges ascend and do not overlap, but may leave out bytes
/// that normalization removed; several tokens of one character share its range. For encode_spans they count in the
/// spans' texts joined together.
struct Encoding {
  std::vector<Token> tokens{};
  std::vector<ByteRange> ranges{};
};

/// (any thread) A vocabulary with its rules. Copies are cheap and share it; every operation is const and safe to call
/// from several threads. Bytes that are not UTF-8 are no error: byte-level and byte-fallback vocabularies keep them,
/// the others read them as U+FFFD. Cost of encode: about linear in the length of the text, whatever it contains.
class LLMINFER_API Tokenizer {
 public:
  /// Reads the tokenizer of a model file; weights are not touched. Errors: those of opening the file;
  /// unsupported_type naming an unknown tokenizer family or pre-tokenizer; corrupt naming a field that contradicts the
  /// vocabulary; not_found when the file has no tokenizer.
  static Result<Tokenizer> open(const ModelSource& source);

  /// Tokens of `text`, which may hold NUL bytes and may be empty.
  Result<std::vector<Token>> encode(std::string_view text, EncodeOptions options = {}) const;
  /// As encode, with the bytes each token came from.
  Result<Encoding> encode_ranges(std::string_view text, EncodeOptions options = {}) const;
  /// Tokens of the spans' texts joined together, control tokens taken only from within markup; options.special is not
  /// looked at. Where no control token stands between two spans, a token may cover the end of one and the start of the
  /// next, as if they had been one text.
  Result<std::vector<Token>> encode_spans(std::span<const TextSpan> spans, EncodeOptions options = {}) const;

  /// The bytes of `tokens` joined together, which need not be UTF-8. The space that encode puts in front for
  /// SentencePiece vocabularies is taken off again. Error: invalid_argument naming an id outside the vocabulary.
  Result<std::string> decode(std::span<const Token> tokens, DecodeOptions options = {}) const;
  /// The bytes one token stands for, control tokens spelled out; valid as long as any copy of this Tokenizer.
  Result<std::string_view> token_to_bytes(Token token) const;
  /// The id of the token spelled exactly so in the model file ("<|im_end|>"), if there is one.
  std::optional<Token> find(std::string_view spelling) const noexcept;

  /// Number of tokens; valid ids are 0 to size() - 1.
  int size() const noexcept;
  std::optional<Token> bos() const noexcept;
  std::optional<Token> eos() const noexcept;
  std::optional<Token> unknown() const noexcept;
  /// True for tokens that steer the model and are not text (BOS, end of turn, ...); false for ids outside.
  bool is_control(Token token) const noexcept;
  /// The tokens that end a generation: what the file names (EOS, end of turn, end of message, extra ones) and control
  /// tokens with a well-known end-of-turn spelling. Ascending.
  std::span<const Token> stop_tokens() const noexcept;
  /// Whether encode with AddToken::automatic puts a BOS (CLS) in front.
  bool adds_bos() const noexcept;
  /// Whether encode with AddToken::automatic puts an EOS (SEP) at the end.
  bool adds_eos() const noexcept;

  /// For the library's own use.
  explicit Tokenizer(std::shared_ptr<const text::Tokenizer> body) noexcept;
  const text::Tokenizer& body() const noexcept { return *body_; }

 private:
  std::shared_ptr<const text::Tokenizer> body_;
};

}  // namespace v0
}  // namespace llminfer
