// WordPiece: BERT's normalization and word splitting, then the longest token again and again within each word.
#include <utf8proc.h>

#include <array>

#include "text/byte_trie.h"
#include "text/encoder.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace llminfer::text {
namespace {

constexpr std::size_t longest_word = 100;  // characters; longer ones are unknown, as in the reference

bool is_white_space(std::uint32_t code) noexcept {
  return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

bool is_dropped(std::uint32_t code) noexcept {
  if (code == 0 || code == replacement_character) return true;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO ||
         category == UTF8PROC_CATEGORY_CS;
}

bool is_punctuation(std::uint32_t code) noexcept {
  if (code < 0x80)
    return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
           (code >= 123 && code <= 126);
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

// The ranges that BERT sets apart as Chinese; the last but two is as in the reference, gap included.
constexpr std::array<std::array<std::uint32_t, 2>, 8> han_ranges{{{0x4E00, 0x9FFF},
                                                                  {0x3400, 0x4DBF},
                                                                  {0x20000, 0x2A6DF},
                                                                  {0x2A700, 0x2B73F},
                                                                  {0x2B740, 0x2B81F},
                                                                  {0x2B920, 0x2CEAF},
                                                                  {0xF900, 0xFAFF},
                                                                  {0x2F800, 0x2FA1F}}};

bool is_han(std::uint32_t code) noexcept {
  for (const auto& range : han_ranges) {
    if (code >= range[0] && code <= range[1]) return true;
  }
  return false;
}

class WordPiece final : public Encoder {
 public:
  explicit WordPiece(const Vocabulary& vocabulary) : vocabulary_(vocabulary), tokens_(token_trie(vocabulary)) {}
  std::unique_ptr<EncodeSession> start(std::size_t text_bytes) const override;

  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }
  const ByteTrie& tokens() const noexcept { return tokens_; }

 private:
  static ByteTrie token_trie(const Vocabulary& vocabulary) {
    ByteTrie::Entries entries(vocabulary.spec().memory);
    for (Token id = 0; id < vocabulary.size(); ++id) {
      if (!vocabulary.is_control(id)) entries.emplace_back(vocabulary.bytes(id), id);
    }
    return ByteTrie(std::move(entries));
  }

  const Vocabulary& vocabulary_;
  ByteTrie tokens_;
};

class WordPieceSession final : public EncodeSession {
 public:
  explicit WordPieceSession(const WordPiece& model)
      : model_(model),
        vocabulary_(model.vocabulary()),
        lowercase_(vocabulary_.spec().lowercase.value_or(true)),
        strip_accents_(vocabulary_.spec().strip_accents.value_or(lowercase_)) {}

  void encode(std::string_view text, std::size_t offset, bool after_special, TokenSink& sink) override {
    (void)after_special;
    start_word();
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Step step = utf8_step(text, at);
      const ByteRange origin{offset + at, offset + at + step.length};
      at += step.length;
      if (is_white_space(step.code)) {
        finish_word(sink);
      } else if (!is_dropped(step.code)) {
        normalize(step.code, origin, sink);
      }
    }
    finish_word(sink);
  }

 private:
  void normalize(std::uint32_t code, ByteRange origin, TokenSink& sink) {
    if (!strip_accents_) return add_character(code, origin, sink);
    std::array<utf8proc_int32_t, 32> parts{};
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), UTF8PROC_DECOMPOSE, nullptr);
    if (count < 1 || count > static_cast<utf8proc_ssize_t>(parts.size())) return add_character(code, origin, sink);
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      const utf8proc_int32_t part = parts[static_cast<std::size_t>(i)];
      if (utf8proc_category(part) == UTF8PROC_CATEGORY_MN) continue;
      add_character(static_cast<std::uint32_t>(part), origin, sink);
    }
  }

  void add_character(std::uint32_t code, ByteRange origin, TokenSink& sink) {
    if (lowercase_) code = static_cast<std::uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
    const bool alone = is_punctuation(code) || is_han(code);
    if (alone) finish_word(sink);
    utf8_append(word_, code);
    origins_.resize(word_.size(), origin);
    ++characters_;
    if (alone) finish_word(sink);
  }

  // Words are stored with a space in front of their first token.
  void start_word() {
    word_.assign(1, ' ');
    origins_.assign(1, {});
    characters_ = 0;
  }

  void finish_word(TokenSink& sink) {
    if (characters_ == 0) return;
    origins_[0] = {origins_[1].begin, origins_[1].begin};
    const std::size_t before = sink.tokens.size();
    bool known = characters_ <= longest_word;
    for (std::size_t at = 0; known && at < word_.size();) {
      std::size_t end = at;
      const Token id = longest_token(at, end);
      known = id >= 0;
      if (known) sink.add(id, origins_[at].begin, origins_[end - 1].end);
      at = end;
    }
    if (!known) {
      sink.tokens.resize(before);
      if (sink.ranges) sink.ranges->resize(before);
      if (vocabulary_.unk()) sink.add(*vocabulary_.unk(), origins_[0].begin, origins_.back().end);
    }
    start_word();
  }

  Token longest_token(std::size_t at, std::size_t& end) const noexcept {
    Token found = ByteTrie::none;
    std::uint32_t node = ByteTrie::root;
    for (std::size_t i = at; i < word_.size();) {
      node = model_.tokens().step(node, static_cast<std::uint8_t>(word_[i++]));
      if (node == ByteTrie::root) break;
      if (model_.tokens().value(node) == ByteTrie::none) continue;
      found = model_.tokens().value(node);
      end = i;
    }
    return found;
  }

  const WordPiece& model_;
  const Vocabulary& vocabulary_;
  bool lowercase_, strip_accents_;
  std::string word_;
  std::vector<ByteRange> origins_;
  std::size_t characters_ = 0;
};

std::unique_ptr<EncodeSession> WordPiece::start(std::size_t) const { return std::make_unique<WordPieceSession>(*this); }

}  // namespace

std::unique_ptr<Encoder> make_wordpiece(const Vocabulary& vocabulary) {
  return std::make_unique<WordPiece>(vocabulary);
}

}  // namespace llminfer::text
