// A vocabulary with its encoder: what the public Tokenizer stands in front of. (any thread)
#pragma once

#include <llminfer/tokenizer.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"
#include "text/encoder.h"
#include "text/vocabulary.h"

namespace llminfer::text {

class Tokenizer {
 public:
  /// Throws unsupported_type (family, pre-tokenizer), corrupt (ids, arrays, merges, charsmap), naming the field.
  explicit Tokenizer(TokenizerSpec spec);
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  ~Tokenizer();

  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }

  /// See the public Tokenizer. Throws invalid_argument when an option asks for a token that the model lacks, or for a
  /// text of 2 GiB and more.
  std::vector<Token> encode(std::string_view text, const EncodeOptions& options = {}) const;
  Encoding encode_ranges(std::string_view text, const EncodeOptions& options = {}) const;
  std::vector<Token> encode_spans(std::span<const TextSpan> spans, const EncodeOptions& options = {}) const;

  /// Throws invalid_argument for ids outside.
  std::string decode(std::span<const Token> tokens, const DecodeOptions& options = {}) const;

 private:
  void encode_into(std::string_view text, std::span<const ByteRange> markup, const EncodeOptions& options,
                   TokenSink& sink) const;
  void encode_body(std::string_view text, std::span<const ByteRange> markup, TokenSink& sink) const;
  Token find_special(std::string_view text, std::size_t at, std::size_t markup_end, std::size_t& end) const noexcept;

  Vocabulary vocabulary_;
  ByteTrie specials_;  // control, unknown and user-defined tokens as spelled
  std::unique_ptr<Encoder> encoder_;
};

}  // namespace llminfer::text
