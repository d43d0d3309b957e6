// SentencePiece's byte-pair encoding: the pair whose union has the best score merges first; what no token covers falls
// back to byte tokens. The whole text is one word, spaces included, but between two bytes that no token has side by
// side nothing can merge, so that it is worked on in pieces that are about words.
#include <bit>
#include <bitset>

#include "text/encoder.h"
#include "text/pair_merge.h"
#include "text/spaces.h"
#include "text/string_map.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace llminfer::text {
namespace {

// Symbols of characters that are no tokens, so that they can still be part of a longer one.
constexpr std::uint32_t loose_character = 0x80000000u;
constexpr std::uint32_t loose_byte = 0xC0000000u;

// Best score first, as an unsigned number.
std::uint32_t rank_of(float score) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(score + 0.0F);  // one zero, not two
  const std::uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

class SentencePieceBpe final : public Encoder {
 public:
  explicit SentencePieceBpe(const Vocabulary& vocabulary)
      : vocabulary_(vocabulary), tokens_(static_cast<std::size_t>(vocabulary.size()), vocabulary.spec().memory) {
    for (Token id = 0; id < vocabulary.size(); ++id) {
      const TokenKind kind = vocabulary.kind(id);
      if (kind != TokenKind::normal && kind != TokenKind::user_defined) continue;
      // Spaces that are not written as marks never meet one in the text.
      const std::string_view bytes = vocabulary.bytes(id);
      if (bytes.empty() || vocabulary.text(id).find(' ') != std::string_view::npos) continue;
      tokens_.insert(bytes, id);
      longest_ = std::max(longest_, bytes.size());
      for (std::size_t i = 0; i + 1 < bytes.size(); ++i) neighbours_.set(pair_index(bytes[i], bytes[i + 1]));
    }
  }
  std::unique_ptr<EncodeSession> start(std::size_t text_bytes) const override;

  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }
  bool can_join(char left, char right) const noexcept { return neighbours_.test(pair_index(left, right)); }
  std::int32_t find(std::string_view bytes) const noexcept {
    return bytes.size() > longest_ ? StringMap::none : tokens_.find(bytes);
  }

 private:
  static std::size_t pair_index(char left, char right) noexcept {
    return std::size_t{static_cast<std::uint8_t>(left)} << 8 | static_cast<std::uint8_t>(right);
  }

  const Vocabulary& vocabulary_;
  StringMap tokens_;
  std::size_t longest_ = 0;
  std::bitset<65536> neighbours_;  // byte pairs that stand side by side in some token
};

// Looks the union of two symbols up by its bytes, remembering recent answers by the two symbols.
struct ScoreRules {
  struct Memory {
    std::uint64_t pair = ~std::uint64_t{0};
    MergeRule rule;
  };
  static constexpr std::size_t memories = 4096;

  const SentencePieceBpe& bpe;
  std::string_view text;
  std::vector<Memory> memory;

  MergeRule find(std::uint32_t left, std::uint32_t right, std::uint32_t begin, std::uint32_t end) {
    if (memory.empty()) return look(begin, end);
    const std::uint64_t pair = std::uint64_t{left} << 32 | right;
    Memory& known = memory[(pair * 0x9E3779B97F4A7C15u >> 40) % memories];
    if (known.pair != pair) known = {pair, look(begin, end)};
    return known.rule;
  }
  MergeRule look(std::uint32_t begin, std::uint32_t end) const noexcept {
    const std::int32_t id = bpe.find(text.substr(begin, end - begin));
    if (id < 0) return {};
    return {rank_of(bpe.vocabulary().score(id)), static_cast<std::uint32_t>(id)};
  }
};

class SentencePieceSession final : public EncodeSession {
 public:
  SentencePieceSession(const SentencePieceBpe& bpe, std::size_t text_bytes)
      : bpe_(bpe), vocabulary_(bpe.vocabulary()), rules_{bpe, {}, {}} {
    if (text_bytes >= 4096) rules_.memory.resize(ScoreRules::memories);
  }

  void encode(std::string_view text, std::size_t offset, bool after_special, TokenSink& sink) override {
    spaced_.set(text, after_special && vocabulary_.adds_space_prefix());
    text = spaced_.text();
    rules_.text = text;
    std::size_t begin = 0;
    for (std::size_t at = 1; at <= text.size(); ++at) {
      if (at < text.size() && bpe_.can_join(text[at - 1], text[at])) continue;
      if (at < text.size() && (static_cast<std::uint8_t>(text[at]) & 0xC0) == 0x80) continue;  // inside a character
      encode_piece(text, begin, at, offset, sink);
      begin = at;
    }
  }

 private:
  void encode_piece(std::string_view text, std::size_t begin, std::size_t end, std::size_t offset, TokenSink& sink) {
    parts_.clear();
    for (std::size_t at = begin; at < end;) {
      const Utf8Step step = utf8_step(text, at);
      const std::size_t size = step.valid ? step.length : 1;
      parts_.push_back({symbol(text.substr(at, size), step), static_cast<std::uint32_t>(at)});
      at += size;
    }
    merger_.merge(parts_, static_cast<std::uint32_t>(end), rules_);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const std::size_t from = parts_[i].begin;
      const std::size_t to = i + 1 < parts_.size() ? parts_[i + 1].begin : end;
      if (parts_[i].symbol < loose_character) {
        sink.add(static_cast<Token>(parts_[i].symbol), offset + spaced_.origin(from), offset + spaced_.origin(to));
      } else {
        add_bytes(text, from, to, offset, sink);
      }
    }
  }

  std::uint32_t symbol(std::string_view character, const Utf8Step& step) const noexcept {
    if (!step.valid) return loose_byte | static_cast<std::uint8_t>(character[0]);
    const std::int32_t id = bpe_.find(character);
    return id >= 0 ? static_cast<std::uint32_t>(id) : loose_character | step.code;
  }

  // One character: its byte tokens, or one "unknown" when any of them is missing.
  void add_bytes(std::string_view text, std::size_t from, std::size_t to, std::size_t offset, TokenSink& sink) const {
    bool all = true;
    for (std::size_t i = from; i < to; ++i)
      all = all && vocabulary_.byte_token(static_cast<std::uint8_t>(text[i])) >= 0;
    const std::size_t begin = offset + spaced_.origin(from), end = offset + spaced_.origin(to);
    if (!all) {
      if (vocabulary_.unk()) sink.add(*vocabulary_.unk(), begin, end);
      return;
    }
    for (std::size_t i = from; i < to; ++i) {
      sink.add(vocabulary_.byte_token(static_cast<std::uint8_t>(text[i])), begin + (i - from), begin + (i - from) + 1);
    }
  }

  const SentencePieceBpe& bpe_;
  const Vocabulary& vocabulary_;
  ScoreRules rules_;
  SpacedText spaced_;
  std::vector<MergePart> parts_;
  PairMerger<ScoreRules> merger_;
};

std::unique_ptr<EncodeSession> SentencePieceBpe::start(std::size_t text_bytes) const {
  return std::make_unique<SentencePieceSession>(*this, text_bytes);
}

}  // namespace

std::unique_ptr<Encoder> make_sentencepiece_bpe(const Vocabulary& vocabulary) {
  return std::make_unique<SentencePieceBpe>(vocabulary);
}

}  // namespace llminfer::text
