// What every tokenizer family implements: ordinary text (no control tokens left in it) to ids.
#pragma once

#include <cstddef>
#include <llminfer/tokenizer.hpp>
#include <memory>
#include <string_view>
#include <vector>

namespace llminfer::text {

class Vocabulary;

/// Where encoders put tokens; positions are bytes of the whole text.
struct TokenSink {
  std::vector<Token>& tokens;
  std::vector<ByteRange>* ranges = nullptr;  ///< null: nobody wants them

  void add(Token id, std::size_t begin, std::size_t end) {
    tokens.push_back(id);
    if (ranges) ranges->push_back({begin, end});
  }
};

/// Working memory of one call of encode, with the rules to use it.
class EncodeSession {
 public:
  EncodeSession() = default;
  EncodeSession(const EncodeSession&) = delete;
  EncodeSession& operator=(const EncodeSession&) = delete;
  virtual ~EncodeSession() = default;
  /// Appends the tokens of `text`, which is not empty and starts at byte `offset` of the whole. `after_special`: it
  /// starts the whole text or follows a token that was taken out of it.
  virtual void encode(std::string_view text, std::size_t offset, bool after_special, TokenSink& sink) = 0;
};

/// Immutable; sessions refer to it.
class Encoder {
 public:
  Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  virtual ~Encoder() = default;
  /// `text_bytes`: about how much will be encoded.
  virtual std::unique_ptr<EncodeSession> start(std::size_t text_bytes) const = 0;
};

// One for each family; they keep the reference.
std::unique_ptr<Encoder> make_byte_bpe(const Vocabulary& vocabulary);
std::unique_ptr<Encoder> make_sentencepiece_bpe(const Vocabulary& vocabulary);
std::unique_ptr<Encoder> make_unigram(const Vocabulary& vocabulary);
std::unique_ptr<Encoder> make_wordpiece(const Vocabulary& vocabulary);

}  // namespace llminfer::text
