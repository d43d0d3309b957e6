// SentencePiece's unigram model: of all ways to cut the normalized text into tokens, the one whose scores add up best.
#include <algorithm>
#include <limits>

#include "text/byte_trie.h"
#include "text/charsmap.h"
#include "text/encoder.h"
#include "text/spaces.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace llminfer::text {
namespace {

constexpr float unknown_penalty = 10.0F;  // below the worst token, as SentencePiece has it

ByteTrie token_trie(const Vocabulary& vocabulary, TokenKind kind) {
  ByteTrie::Entries entries(vocabulary.spec().memory);
  for (Token id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.kind(id) == kind) entries.emplace_back(vocabulary.bytes(id), id);
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
        tokens_(token_trie(vocabulary, TokenKind::normal)),
        given_(token_trie(vocabulary, TokenKind::user_defined)),
        charsmap_(vocabulary.spec().charsmap),
        unknown_score_(worst_score(vocabulary) - unknown_penalty) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      byte_fallback_ = byte_fallback_ && vocabulary.byte_token(static_cast<std::uint8_t>(byte)) >= 0;
    }
  }
  std::unique_ptr<EncodeSession> start(std::size_t text_bytes) const override;

  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }
  const ByteTrie& tokens() const noexcept { return tokens_; }
  /// User-defined tokens: taken out of the text before it is normalized.
  const ByteTrie& given() const noexcept { return given_; }
  const Charsmap& charsmap() const noexcept { return charsmap_; }
  float unknown_score() const noexcept { return unknown_score_; }
  bool byte_fallback() const noexcept { return byte_fallback_; }

 private:
  const Vocabulary& vocabulary_;
  ByteTrie tokens_, given_;
  Charsmap charsmap_;
  float unknown_score_;
  bool byte_fallback_ = true;
};

class UnigramSession final : public EncodeSession {
 public:
  explicit UnigramSession(const Unigram& model) : model_(model), vocabulary_(model.vocabulary()) {}

  void encode(std::string_view text, std::size_t offset, bool after_special, TokenSink& sink) override {
    normalize(text, after_special);
    std::size_t begin = 0;
    for (const Given& given : givens_) {
      encode_between(begin, given.begin, offset, sink);
      sink.add(given.id, offset + origins_[given.begin].begin, offset + origins_[given.end - 1].end);
      begin = given.end;
    }
    encode_between(begin, normalized_.size(), offset, sink);
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
  // A user-defined token in the normalized text.
  struct Given {
    Token id;
    std::size_t begin, end;
  };

  // Charsmap, then spaces: runs become one where the model wants that, and the text gets one in front.
  void normalize(std::string_view text, bool at_start) {
    normalized_.clear();
    origins_.clear();
    givens_.clear();
    in_word_ = false;
    space_due_ = at_start && vocabulary_.adds_space_prefix();
    if (!vocabulary_.removes_extra_spaces()) start_word(0);  // before spaces of the text, and if nothing else remains
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = at;
      const Token given = longest_given(text, at, end);
      if (given >= 0) {
        start_word(at);
        const std::size_t begin = normalized_.size();
        for (; at < end; ++at) push(text[at], {at, at + 1});
        givens_.push_back({given, begin, normalized_.size()});
        continue;
      }
      const Charsmap::Match match = model_.charsmap().match(text.substr(at));
      add(match.text, {at, at + match.consumed});
      at += match.consumed;
    }
  }

  void add(std::string_view text, ByteRange origin) {
    const bool merge = vocabulary_.removes_extra_spaces();
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == ' ') {
        if (!merge) push(' ', origin);
        if (merge && in_word_) space_due_ = true;
        in_word_ = false;
        continue;
      }
      start_word(origin.begin);
      const bool mark = text.substr(i, space_mark.size()) == space_mark;  // a space that no rule looks at
      push(mark ? ' ' : text[i], origin);
      if (mark) i += space_mark.size() - 1;
    }
  }

  void start_word(std::size_t at) {
    if (space_due_) push(' ', {at, at});
    space_due_ = false;
    in_word_ = true;
  }

  Token longest_given(std::string_view text, std::size_t at, std::size_t& end) const noexcept {
    Token found = ByteTrie::none;
    std::uint32_t node = ByteTrie::root;
    for (std::size_t i = at; i < text.size();) {
      node = model_.given().step(node, static_cast<std::uint8_t>(text[i++]));
      if (node == ByteTrie::root) break;
      if (model_.given().value(node) < 0) continue;
      found = model_.given().value(node);
      end = i;
    }
    return found;
  }

  void push(char c, ByteRange origin) {
    normalized_ += c;
    origins_.push_back(origin);
  }

  // [first, last) of the normalized text, which holds no user-defined token.
  void encode_between(std::size_t first, std::size_t last, std::size_t offset, TokenSink& sink) {
    if (first == last) return;
    find_best_paths(std::string_view(normalized_).substr(first, last - first));
    emit(first, last - first, offset, sink);
  }

  void find_best_paths(std::string_view text) {
    const std::size_t size = text.size();
    arrivals_.assign(size + 1, {});
    arrivals_[0].score = 0;
    for (std::size_t begin = 0; begin < size;) {
      const std::size_t character = utf8_step(text, begin).length;
      const float score = arrivals_[begin].score;
      bool single = false;
      std::uint32_t node = ByteTrie::root;
      for (std::size_t end = begin; end < size;) {
        node = model_.tokens().step(node, static_cast<std::uint8_t>(text[end++]));
        if (node == ByteTrie::root) break;
        const Token id = model_.tokens().value(node);
        if (id < 0) continue;
        single = single || end - begin == character;
        arrive(end, score + vocabulary_.score(id), id, begin);
      }
      if (!single) arrive(begin + character, score + model_.unknown_score(), unknown, begin);
      begin += character;
    }
  }

  void arrive(std::size_t end, float score, Token id, std::size_t begin) noexcept {
    Arrival& best = arrivals_[end];
    if (best.begin == Arrival::none || score > best.score) best = {score, id, static_cast<std::uint32_t>(begin)};
  }

  void emit(std::size_t first, std::size_t size, std::size_t offset, TokenSink& sink) {
    path_.clear();
    for (std::size_t end = size; end > 0; end = arrivals_[end].begin) {
      const Token id = arrivals_[end].id;
      if (id == unknown && !path_.empty() && path_.back().id == unknown) {
        path_.back().begin = first + arrivals_[end].begin;  // neighbouring unknowns are one
      } else {
        path_.push_back({id, first + arrivals_[end].begin, first + end});
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

  struct Step {
    Token id;
    std::size_t begin, end;
  };

  const Unigram& model_;
  const Vocabulary& vocabulary_;
  std::string normalized_;
  std::vector<ByteRange> origins_;  // of each normalized byte
  std::vector<Given> givens_;
  bool in_word_ = false;    // spaces at the start are dropped where runs are merged
  bool space_due_ = false;  // before the next character
  std::vector<Arrival> arrivals_;
  std::vector<Step> path_;
};

std::unique_ptr<EncodeSession> Unigram::start(std::size_t) const { return std::make_unique<UnigramSession>(*this); }

}  // namespace

std::unique_ptr<Encoder> make_unigram(const Vocabulary& vocabulary) { return std::make_unique<Unigram>(vocabulary); }

}  // namespace llminfer::text
