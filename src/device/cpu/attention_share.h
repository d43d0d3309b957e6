// How the attention of a step is shared out among threads. Its items (a sequence, a tile of its tokens, heads that
// share a KV head) are one list, of which each thread takes an equal part by the keys that are read: a cut lies between
// two ranges of an item, where its states find room, or else between items.
#pragma once

#include <array>
#include <cstdint>

#include "device/cpu/kernels.h"

namespace llminfer::cpu {

/// Ranges [first, end) of an item.
struct RangePart {
  std::int32_t thread = 0;
  std::int32_t first = 0;
  std::int32_t end = 0;
};

struct RangeParts {
  std::array<RangePart, attention_ranges> parts{};
  std::int32_t count = 0;
};

/// Cost of an item: rows, and about as much as eight of them for what all rows share.
constexpr std::int64_t attention_weight(const AttentionKeys& keys, std::int32_t rows) noexcept {
  return std::int64_t{keys.last - keys.first + 1} * (rows + 8);
}

/// Goes through the list, item by item.
class AttentionShares {
 public:
  /// `total`: the weights of all items.
  AttentionShares(std::int64_t total, int threads) noexcept : total_(total), threads_(threads) {}

  /// Who does what of the next item, in the order of keys.
  RangeParts next(const AttentionKeys& keys, std::int32_t rows, bool whole) noexcept {
    const std::int64_t weight = attention_weight(keys, rows), behind = at_ + weight;
    const std::int32_t end = keys.last / keys.range + 1;
    RangeParts out;
    std::int32_t first = keys.first / keys.range;
    for (; owner_ + 1 < threads_; ++owner_) {
      const std::int64_t target = total_ / threads_ * (owner_ + 1) + total_ % threads_ * (owner_ + 1) / threads_;
      if (target >= behind) break;
      const std::int32_t cut = whole ? (2 * (target - at_) < weight ? first : end) : cut_at(keys, rows, target - at_);
      add(out, first, cut);
      first = cut > first ? cut : first;
    }
    add(out, first, end);
    at_ = behind;
    return out;
  }

 private:
  void add(RangeParts& out, std::int32_t first, std::int32_t end) const noexcept {
    if (first < end) out.parts[static_cast<std::size_t>(out.count++)] = {owner_, first, end};
  }

  /// The beginning of a range that is nearest to `weight` in an item, its own beginning and end included.
  static std::int32_t cut_at(const AttentionKeys& keys, std::int32_t rows, std::int64_t weight) noexcept {
    const std::int64_t at = keys.first + weight / (rows + 8), first = keys.first / keys.range;
    const std::int64_t low = at / keys.range, start = low == first ? keys.first : low * keys.range;
    const std::int64_t high = (low + 1) * keys.range > keys.last ? keys.last + 1 : (low + 1) * keys.range;
    return static_cast<std::int32_t>(at - start < high - at ? low : low + 1);
  }

  std::int64_t total_;
  int threads_;
  std::int64_t at_ = 0;  // weight of the items so far
  int owner_ = 0;        // whose part the next item begins in
};

}  // namespace llminfer::cpu
