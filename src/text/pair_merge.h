// The merging of byte-pair encoding: again and again the adjacent pair of lowest rank (the leftmost of equals) becomes
// one symbol. Few parts: a scan for the minimum, n^2 of a small n. Many: a heap, n log n.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace llminfer::text {

/// A symbol and where its bytes begin; they end where the next part begins.
struct MergePart {
  std::uint32_t symbol;
  std::uint32_t begin;
};

/// What two adjacent symbols become. Lower ranks merge first.
struct MergeRule {
  static constexpr std::uint32_t never = 0xFFFFFFFFu;
  std::uint32_t rank = never;
  std::uint32_t symbol = 0;
};

/// Rules: MergeRule find(left symbol, right symbol, begin, end) const, where begin and end are of both together.
template <class Rules>
class PairMerger {
 public:
  /// Merges in place; `end` is where the last part's bytes end.
  void merge(std::vector<MergePart>& parts, std::uint32_t end, Rules& rules) {
    if (parts.size() < 2) return;
    if (parts.size() <= scan_limit) {
      merge_by_scan(parts, end, rules);
    } else {
      merge_by_heap(parts, end, rules);
    }
  }

 private:
  static constexpr std::size_t scan_limit = 40;
  static constexpr std::uint32_t nil = 0xFFFFFFFFu;

  struct Node {
    std::uint32_t symbol, begin, end, previous, next;
  };
  // Valid as long as both symbols still stand where they stood.
  struct Candidate {
    std::uint32_t rank, left, right, left_symbol, right_symbol, symbol;
  };
  struct Later {
    bool operator()(const Candidate& a, const Candidate& b) const noexcept {
      return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
    }
  };

  void merge_by_scan(std::vector<MergePart>& parts, std::uint32_t end, Rules& rules) {
    std::size_t count = parts.size();
    MergeRule found[scan_limit];
    const auto end_of = [&](std::size_t i) { return i + 1 < count ? parts[i + 1].begin : end; };
    const auto look = [&](std::size_t i) {
      found[i] = rules.find(parts[i].symbol, parts[i + 1].symbol, parts[i].begin, end_of(i + 1));
    };
    for (std::size_t i = 0; i + 1 < count; ++i) look(i);
    while (count > 1) {
      std::size_t best = 0;
      for (std::size_t i = 1; i + 1 < count; ++i) {
        if (found[i].rank < found[best].rank) best = i;
      }
      if (found[best].rank == MergeRule::never) break;
      parts[best].symbol = found[best].symbol;
      for (std::size_t i = best + 1; i + 1 < count; ++i) {
        parts[i] = parts[i + 1];
        found[i - 1] = found[i];
      }
      --count;
      if (best + 1 < count) look(best);
      if (best > 0) look(best - 1);
    }
    parts.resize(count);
  }

  void merge_by_heap(std::vector<MergePart>& parts, std::uint32_t end, Rules& rules) {
    const auto count = static_cast<std::uint32_t>(parts.size());
    nodes_.resize(count);
    heap_.clear();
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t part_end = i + 1 < count ? parts[i + 1].begin : end;
      nodes_[i] = {parts[i].symbol, parts[i].begin, part_end, i == 0 ? nil : i - 1, i + 1 < count ? i + 1 : nil};
    }
    for (std::uint32_t i = 0; i + 1 < count; ++i) propose(i, i + 1, rules, false);
    std::make_heap(heap_.begin(), heap_.end(), Later{});
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), Later{});
      const Candidate best = heap_.back();
      heap_.pop_back();
      Node& left = nodes_[best.left];
      // A merged-away node keeps its place but gets an empty range, which no live right neighbour has.
      if (left.next != best.right || left.begin == left.end || left.symbol != best.left_symbol ||
          nodes_[best.right].symbol != best.right_symbol) {
        continue;
      }
      Node& right = nodes_[best.right];
      left.symbol = best.symbol;
      left.end = right.end;
      left.next = right.next;
      right.end = right.begin;
      if (left.next != nil) {
        nodes_[left.next].previous = best.left;
        propose(best.left, left.next, rules, true);
      }
      if (left.previous != nil) propose(left.previous, best.left, rules, true);
    }
    parts.clear();
    for (std::uint32_t i = 0; i != nil; i = nodes_[i].next) parts.push_back({nodes_[i].symbol, nodes_[i].begin});
  }

  void propose(std::uint32_t left, std::uint32_t right, Rules& rules, bool push) {
    const Node& a = nodes_[left];
    const Node& b = nodes_[right];
    const MergeRule rule = rules.find(a.symbol, b.symbol, a.begin, b.end);
    if (rule.rank == MergeRule::never) return;
    heap_.push_back({rule.rank, left, right, a.symbol, b.symbol, rule.symbol});
    if (push) std::push_heap(heap_.begin(), heap_.end(), Later{});
  }

  std::vector<Node> nodes_;
  std::vector<Candidate> heap_;
};

}  // namespace llminfer::text
