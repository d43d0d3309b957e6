// Byte-level byte-pair encoding, and its variant over raw UTF-8 (gemma4): split into words, merge within each.
#include <array>
#include <cstring>

#include "text/encoder.h"
#include "text/merge_table.h"
#include "text/spaces.h"
#include "text/splitter.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace llminfer::text {
namespace {

constexpr std::uint32_t no_symbol = 0xFFFFFFFFu;  // merges with nothing

struct TableRules {
  const MergeTable& table;
  MergeRule find(std::uint32_t left, std::uint32_t right, std::uint32_t, std::uint32_t) const noexcept {
    return table.find(left, right);
  }
};

class ByteBpe final : public Encoder {
 public:
  explicit ByteBpe(const Vocabulary& vocabulary)
      : vocabulary_(vocabulary), splitter_(vocabulary.pre().passes), table_(vocabulary) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      const std::int32_t symbol = table_.symbol({&c, 1});
      byte_symbols_[byte] = symbol < 0 ? no_symbol : static_cast<std::uint32_t>(symbol);
    }
  }
  std::unique_ptr<EncodeSession> start(std::size_t text_bytes) const override;

  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }
  const Splitter& splitter() const noexcept { return splitter_; }
  const MergeTable& table() const noexcept { return table_; }
  std::uint32_t byte_symbol(char byte) const noexcept { return byte_symbols_[static_cast<std::uint8_t>(byte)]; }

 private:
  const Vocabulary& vocabulary_;
  Splitter splitter_;
  MergeTable table_;
  std::array<std::uint32_t, 256> byte_symbols_{};
};

// The tokens of short words seen earlier in the same call: natural text repeats itself.
class WordCache {
 public:
  static constexpr std::size_t longest_word = 16, most_tokens = 6, entries = 1024;
  struct Entry {
    std::uint64_t low = 0, high = 0;  // the word's bytes
    std::uint8_t size = 0, count = 0;
    std::array<Token, most_tokens> tokens{};
  };

  explicit WordCache(std::size_t text_bytes) : entries_(text_bytes >= 4096 ? entries : 0) {}
  bool on() const noexcept { return !entries_.empty(); }
  /// The entry where the word is or would be; hit tells which.
  Entry& place(std::string_view word, bool& hit) noexcept {
    std::uint64_t low = 0, high = 0;
    std::memcpy(&low, word.data(), word.size() < 8 ? word.size() : 8);
    if (word.size() > 8) std::memcpy(&high, word.data() + 8, word.size() - 8);
    std::uint64_t hash = (low ^ (high << 1 | high >> 63)) * 0x9E3779B97F4A7C15u + word.size();
    hash ^= hash >> 32;
    hash *= 0xBF58476D1CE4E5B9u;
    Entry& entry = entries_[(hash >> 40) % entries];
    hit = entry.size == word.size() && entry.low == low && entry.high == high;
    if (!hit) entry = {low, high, static_cast<std::uint8_t>(word.size()), 0, {}};
    return entry;
  }

 private:
  std::vector<Entry> entries_;
};

class ByteBpeSession final : public EncodeSession {
 public:
  ByteBpeSession(const ByteBpe& rules, std::size_t text_bytes)
      : rules_(rules),
        vocabulary_(rules.vocabulary()),
        raw_utf8_(vocabulary_.pre().raw_utf8),
        split_scratch_(rules.splitter()),
        cache_(text_bytes) {}

  void encode(std::string_view text, std::size_t offset, bool after_special, TokenSink& sink) override {
    (void)after_special;
    if (raw_utf8_) {
      spaced_.set(text, false);
      text = spaced_.text();
    }
    rules_.splitter().split_bytes(text, split_scratch_, ends_);
    std::size_t begin = 0;
    for (const std::size_t end : ends_) {
      encode_word(text.substr(begin, end - begin), begin, offset, sink);
      begin = end;
    }
  }

 private:
  void add(Token id, std::size_t begin, std::size_t end, std::size_t offset, TokenSink& sink) const {
    if (sink.ranges && raw_utf8_) {
      begin = spaced_.origin(begin);
      end = spaced_.origin(end);
    }
    sink.add(id, offset + begin, offset + end);
  }

  void encode_word(std::string_view word, std::size_t begin, std::size_t offset, TokenSink& sink) {
    if (!cache_.on() || word.size() > WordCache::longest_word) return merge_word(word, begin, offset, sink);
    bool hit = false;
    WordCache::Entry& entry = cache_.place(word, hit);
    if (hit && entry.count > 0) {
      std::size_t at = begin;
      for (std::uint8_t i = 0; i < entry.count; ++i) {
        const std::size_t size = vocabulary_.bytes(entry.tokens[i]).size();
        add(entry.tokens[i], at, at + size, offset, sink);
        at += size;
      }
      return;
    }
    const std::size_t before = sink.tokens.size();
    merge_word(word, begin, offset, sink);
    const std::size_t count = sink.tokens.size() - before;
    if (count > WordCache::most_tokens) return;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
      entry.tokens[i] = sink.tokens[before + i];
      bytes += vocabulary_.bytes(entry.tokens[i]).size();
    }
    // Where a byte had no token the sizes do not add up, and the word is not worth remembering.
    entry.count = bytes == word.size() ? static_cast<std::uint8_t>(count) : 0;
  }

  void merge_word(std::string_view word, std::size_t begin, std::size_t offset, TokenSink& sink) {
    const bool newlines = raw_utf8_ && word[0] == '\n';
    if (vocabulary_.pre().ignore_merges || newlines) {
      const std::int32_t whole = rules_.table().symbol(word);
      if (whole >= 0 && rules_.table().is_token(static_cast<std::uint32_t>(whole))) {
        return add(whole, begin, begin + word.size(), offset, sink);
      }
    }
    if (raw_utf8_) {
      fill_characters(word);
    } else {
      fill_bytes(word);
    }
    TableRules table{rules_.table()};
    merger_.merge(parts_, static_cast<std::uint32_t>(word.size()), table);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const std::size_t from = parts_[i].begin;
      const std::size_t to = i + 1 < parts_.size() ? parts_[i + 1].begin : word.size();
      if (rules_.table().is_token(parts_[i].symbol)) {
        add(static_cast<Token>(parts_[i].symbol), begin + from, begin + to, offset, sink);
      } else {
        add_bytes(word, from, to, begin, offset, sink);
      }
    }
  }

  // A symbol that is no token falls apart into its bytes. A byte without a token is lost: "unknown" of a byte-level
  // vocabulary, where a file names one, is the end of a text, which no text may spell.
  void add_bytes(std::string_view word, std::size_t from, std::size_t to, std::size_t begin, std::size_t offset,
                 TokenSink& sink) const {
    for (std::size_t i = from; i < to; ++i) {
      Token id = vocabulary_.byte_token(static_cast<std::uint8_t>(word[i]));
      if (id < 0 && raw_utf8_) id = vocabulary_.unk().value_or(-1);
      if (id >= 0) add(id, begin + i, begin + i + 1, offset, sink);
    }
  }

  void fill_bytes(std::string_view word) {
    parts_.resize(word.size());
    for (std::size_t i = 0; i < word.size(); ++i) {
      parts_[i] = {rules_.byte_symbol(word[i]), static_cast<std::uint32_t>(i)};
    }
  }

  void fill_characters(std::string_view word) {
    parts_.clear();
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t size = utf8_step(word, at).length;
      const std::int32_t symbol = rules_.table().symbol(word.substr(at, size));
      parts_.push_back({symbol < 0 ? no_symbol : static_cast<std::uint32_t>(symbol), static_cast<std::uint32_t>(at)});
      at += size;
    }
  }

  const ByteBpe& rules_;
  const Vocabulary& vocabulary_;
  bool raw_utf8_;
  Splitter::Scratch split_scratch_;
  WordCache cache_;
  SpacedText spaced_;
  std::vector<std::size_t> ends_;
  std::vector<MergePart> parts_;
  PairMerger<TableRules> merger_;
};

std::unique_ptr<EncodeSession> ByteBpe::start(std::size_t text_bytes) const {
  return std::make_unique<ByteBpeSession>(*this, text_bytes);
}

}  // namespace

std::unique_ptr<Encoder> make_byte_bpe(const Vocabulary& vocabulary) { return std::make_unique<ByteBpe>(vocabulary); }

}  // namespace llminfer::text
