// SentencePiece's unigram model: of all ways to cut the normalized text into tokens, the one whose scores add up best.
#include <algorithm>
#include <limits>

#include "text/byte_trie.h"
#include "text/charsmap.h"
#include "text/encoder.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace llminfer::text {
namespace {

constexpr float unknown_penalty = 10.0F;  // below the worst token, as SentencePiece has it

ByteTrie token_trie(const Vocabulary& vocabulary) {
  std::vector<ByteTrie::Entry> entries;
  for (Token id = 0; id < vocabulary.size(); ++id) {
    const TokenKind kind = vocabulary.kind(id);
    if (kind == TokenKind::normal || kind == TokenKind::user_defined) entries.emplace_back(vocabulary.bytes(id), id);
  }
  return ByteTrie(std::move(entries));
}

float worst_score(const Vocabulary& vocabulary) {
  float worst = std::numeric_limits<float>::max();
  for (Token id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.kind(id) == TokenKind::normal) worst = std::min(worst, vocabulary.score(id));
  }
  return worst;
}

class Unigram final : public Encoder {
 public:
  explicit Unigram(const Vocabulary& vocabulary)
      : vocabulary_(vocabulary),
        tokens_(token_trie(vocabulary)),
        charsmap_(vocabulary.spec().charsmap),
        unknown_score_(worst_score(vocabulary) - unknown_penalty) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      byte_fallback_ = byte_fallback_ && vocabulary.byte_token(static_cast<std::uint8_t>(byte)) >= 0;
    }
  }
  std::unique_ptr<EncodeSession> start(std::size_t text_bytes) const override;

  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }
  const ByteTrie& tokens() const noexcept { return tokens_; }
  const Charsmap& charsmap() const noexcept { return charsmap_; }
  float unknown_score() const noexcept { return unknown_score_; }
  bool byte_fallback() const noexcept { return byte_fallback_; }

 private:
  const Vocabulary& vocabulary_;
  ByteTrie tokens_;
  Charsmap charsmap_;
  float unknown_score_;
  bool byte_fallback_ = true;
};

class UnigramSession final : public EncodeSession {
 public:
  explicit UnigramSession(const Unigram& model) : model_(model), vocabulary_(model.vocabulary()) {}

  void encode(std::string_view text, std::size_t offset, bool after_special, TokenSink& sink) override {
    (void)after_special;
    normalize(text);
    if (normalized_.empty()) return;
    find_best_paths();
    emit(offset, sink);
  }

 private:
  static constexpr Token unknown = -1;
  // The best way to reach a position: its last token, and where that begins.
  struct Arrival {
    float score = -std::numeric_limits<float>::infinity();
    Token id = unknown;
    std::uint32_t begin = none;
    static constexpr std::uint32_t none = 0xFFFFFFFFu;
  };

  // Charsmap, then spaces: runs become one where the model wants that, and each text (or word) gets one in front.
  void normalize(std::string_view text) {
    normalized_.clear();
    origins_.clear();
    const bool prepend = vocabulary_.adds_space_prefix(), merge = vocabulary_.removes_extra_spaces();
    bool in_word = false, any_word = false;
    for (std::size_t at = 0; at < text.size();) {
      const Charsmap::Match match = model_.charsmap().match(text.substr(at));
      const ByteRange origin{at, at + match.consumed};
      for (const char c : match.text) {
        if (c == ' ') {
          in_word = false;
          if (!merge) push(' ', origin);
          continue;
        }
        if (!in_word) {
          if (any_word ? merge : prepend) push(' ', {origin.begin, origin.begin});
          in_word = any_word = true;
        }
        push(c, origin);
        // A mark in the text is a space that no rule looks at.
        if (normalized_.size() >= space_mark_size && std::string_view(normalized_).ends_with("\xE2\x96\x81")) {
          normalized_.resize(normalized_.size() - space_mark_size);
          origins_.resize(normalized_.size());
          push(' ', origin);
        }
      }
      at += match.consumed;
    }
  }

  void push(char c, ByteRange origin) {
    normalized_ += c;
    origins_.push_back(origin);
  }

  void find_best_paths() {
    const std::size_t size = normalized_.size();
    arrivals_.assign(size + 1, {});
    arrivals_[0].score = 0;
    for (std::size_t begin = 0; begin < size;) {
      const std::size_t character = utf8_step(normalized_, begin).length;
      const float score = arrivals_[begin].score;
      bool single = false;
      std::uint32_t node = ByteTrie::root;
      for (std::size_t end = begin; end < size;) {
        node = model_.tokens().step(node, static_cast<std::uint8_t>(normalized_[end++]));
        if (node == ByteTrie::root) break;
        const Token id = model_.tokens().value(node);
        if (id < 0) continue;
        single = single || end - begin == character;
        const bool given = vocabulary_.kind(id) == TokenKind::user_defined;
        arrive(end, score + (given ? 0.0F : vocabulary_.score(id)), id, begin);
      }
      if (!single) arrive(begin + character, score + model_.unknown_score(), unknown, begin);
      begin += character;
    }
  }

  void arrive(std::size_t end, float score, Token id, std::size_t begin) noexcept {
    Arrival& best = arrivals_[end];
    if (best.begin == Arrival::none || score > best.score) best = {score, id, static_cast<std::uint32_t>(begin)};
  }

  void emit(std::size_t offset, TokenSink& sink) {
    path_.clear();
    for (std::size_t end = normalized_.size(); end > 0; end = arrivals_[end].begin) {
      const Token id = arrivals_[end].id;
      if (id == unknown && !path_.empty() && path_.back().id == unknown) {
        path_.back().begin = arrivals_[end].begin;  // neighbouring unknowns are one
      } else {
        path_.push_back({id, arrivals_[end].begin, end});
      }
    }
    for (auto step = path_.rbegin(); step != path_.rend(); ++step) {
      const std::size_t begin = offset + origins_[step->begin].begin, end = offset + origins_[step->end - 1].end;
      if (step->id != unknown) {
        sink.add(step->id, begin, end);
      } else if (model_.byte_fallback()) {
        for (std::size_t i = step->begin; i < step->end; ++i) {
          sink.add(vocabulary_.byte_token(static_cast<std::uint8_t>(normalized_[i])), offset + origins_[i].begin,
                   offset + origins_[i].end);
        }
      } else if (vocabulary_.unk()) {
        sink.add(*vocabulary_.unk(), begin, end);
      }
    }
  }

  static constexpr std::size_t space_mark_size = 3;
  struct Step {
    Token id;
    std::size_t begin, end;
  };

  const Unigram& model_;
  const Vocabulary& vocabulary_;
  std::string normalized_;
  std::vector<ByteRange> origins_;  // of each normalized byte
  std::vector<Arrival> arrivals_;
  std::vector<Step> path_;
};

std::unique_ptr<EncodeSession> Unigram::start(std::size_t) const { return std::make_unique<UnigramSession>(*this); }

}  // namespace

std::unique_ptr<Encoder> make_unigram(const Vocabulary& vocabulary) { return std::make_unique<Unigram>(vocabulary); }

}  // namespace llminfer::text
