// A set of byte strings with values, walked one byte at a time: for longest matches and for all matches at a position.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "core/vector.h"

namespace llminfer::text {

/// Immutable. A node's children are neighbours in one array, ordered by their byte.
class ByteTrie {
 public:
  static constexpr std::int32_t none = -1;
  using Entry = std::pair<std::string_view, std::int32_t>;

  using Entries = core::Vector<Entry>;

  ByteTrie() : ByteTrie(Entries{}) {}
  /// Of equal strings the first one counts; empty strings are left out. The strings' bytes are not kept. The trie lives
  /// in the memory of `entries`.
  explicit ByteTrie(Entries entries) : nodes_(entries.get_allocator()), bytes_(entries.get_allocator()) {
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.first < b.first; });
    entries.erase(
        std::unique(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.first == b.first; }),
        entries.end());
    if (!entries.empty() && entries.front().first.empty()) entries.erase(entries.begin());
    build(entries);
  }

  static constexpr std::uint32_t root = 0;
  /// The node after one more byte, or root (to which no byte leads) if there is none.
  std::uint32_t step(std::uint32_t node, std::uint8_t byte) const noexcept {
    if (node == root) return first_[byte];
    const Node& from = nodes_[node];
    std::uint32_t low = from.children, high = from.children + from.count;
    while (high - low > 8) {
      const std::uint32_t middle = (low + high) / 2;
      if (bytes_[middle] <= byte) {
        low = middle;
      } else {
        high = middle;
      }
    }
    for (; low < high; ++low) {
      if (bytes_[low] == byte) return low;
    }
    return root;
  }
  /// Value of the string that ends here, or none.
  std::int32_t value(std::uint32_t node) const noexcept { return nodes_[node].value; }

  /// Nodes are numbered level by level from the root on, the children of a node one after the other.
  std::size_t node_count() const noexcept { return nodes_.size(); }
  std::uint32_t first_child(std::uint32_t node) const noexcept { return nodes_[node].children; }
  std::uint32_t end_child(std::uint32_t node) const noexcept { return nodes_[node].children + nodes_[node].count; }
  /// The byte that leads to a node.
  std::uint8_t byte(std::uint32_t node) const noexcept { return bytes_[node]; }

 private:
  struct Node {
    std::uint32_t children = 0;
    std::uint32_t count = 0;
    std::int32_t value = none;
  };
  struct Range {
    std::uint32_t node, depth;
    std::size_t begin, end;
  };

  // Level by level, so that the children of a node get neighbouring numbers.
  void build(const Entries& entries) {
    nodes_.assign(1, {});
    bytes_.assign(1, 0);
    core::Vector<Range> level(entries.get_allocator()), next(entries.get_allocator());
    level.push_back({root, 0, 0, entries.size()});
    while (!level.empty()) {
      next.clear();
      for (const Range& range : level) add_children(entries, range, next);
      level.swap(next);
    }
    first_.fill(root);
    for (std::uint32_t i = 0; i < nodes_[root].count; ++i)
      first_[bytes_[nodes_[root].children + i]] = nodes_[root].children + i;
  }

  void add_children(const Entries& entries, const Range& range, core::Vector<Range>& next) {
    std::size_t at = range.begin;
    if (at < range.end && entries[at].first.size() == range.depth) nodes_[range.node].value = entries[at++].second;
    nodes_[range.node].children = static_cast<std::uint32_t>(nodes_.size());
    while (at < range.end) {
      const auto byte = static_cast<std::uint8_t>(entries[at].first[range.depth]);
      std::size_t end = at + 1;
      while (end < range.end && static_cast<std::uint8_t>(entries[end].first[range.depth]) == byte) ++end;
      next.push_back({static_cast<std::uint32_t>(nodes_.size()), range.depth + 1, at, end});
      nodes_.push_back({});
      bytes_.push_back(byte);
      ++nodes_[range.node].count;
      at = end;
    }
  }

  core::Vector<Node> nodes_;
  core::Vector<std::uint8_t> bytes_;  // bytes_[n]: the byte that leads to node n
  std::array<std::uint32_t, 256> first_{};
};

}  // namespace llminfer::text
