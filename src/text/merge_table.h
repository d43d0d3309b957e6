// The merges of a byte-pair vocabulary as a table from pairs of symbols to rank and result. A symbol is a token id, or,
// for strings that merges make but the vocabulary lacks, an id from the vocabulary's size on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "text/pair_merge.h"
#include "text/string_map.h"

namespace llminfer::text {

class Vocabulary;

class MergeTable {
 public:
  /// Throws corrupt for a merge without a space between two parts.
  explicit MergeTable(const Vocabulary& vocabulary);
  MergeTable(const MergeTable&) = delete;
  MergeTable& operator=(const MergeTable&) = delete;

  MergeRule find(std::uint32_t left, std::uint32_t right) const noexcept {
    const std::uint64_t key = std::uint64_t{left} << 32 | right;
    std::size_t at = place(key);
    while (slots_[at].key != key) {
      if (slots_[at].rule.rank == MergeRule::never) return {};
      at = (at + 1) & mask_;
    }
    return slots_[at].rule;
  }

  /// The symbol whose bytes these are, or StringMap::none. Never a control token.
  std::int32_t symbol(std::string_view bytes) const noexcept { return symbols_.find(bytes); }
  bool is_token(std::uint32_t symbol) const noexcept { return symbol < vocabulary_size_; }

 private:
  struct Slot {
    std::uint64_t key = ~std::uint64_t{0};
    MergeRule rule;
  };

  std::size_t place(std::uint64_t key) const noexcept {
    key *= 0x9E3779B97F4A7C15u;
    return static_cast<std::size_t>(key >> 32) & mask_;
  }
  void collect_symbols(const Vocabulary& vocabulary);
  void add(std::uint64_t key, MergeRule rule) noexcept;
  std::uint32_t symbol_or_new(std::string_view bytes);

  std::uint32_t vocabulary_size_ = 0;
  StringMap symbols_;
  std::deque<std::string> extra_;
  core::Vector<Slot> slots_;
  std::size_t mask_ = 0;
};

}  // namespace llminfer::text
