// Finds whole pages that hold what a history begins with. A page's key is a keyed hash over (model, adapter, salt, all
// tokens up to the page's end), chained page by page; a hit counts only if the page's tokens are equal as well.
#pragma once

#include <cstdint>
#include <llminfer/backend/backend.hpp>
#include <llminfer/types.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/hash.h"
#include "core/vector.h"
#include "runtime/page_pool.h"

namespace llminfer::runtime {

/// What the cache is made of and for.
struct PrefixCacheOptions {
  core::HashKey secret{};       ///< random: who knows it can build prompts whose keys collide
  core::Hash128 fingerprint{};  ///< of the model
};

/// Counts since start.
struct PrefixCacheStats {
  std::uint64_t hits = 0;  ///< histories that took pages
  std::uint64_t hit_tokens = 0;
  std::uint64_t evictions = 0;  ///< pages that were cached and given to somebody else
};

/// A node stands for one page's worth of tokens at one place of a history, with its page in each state group: all
/// groups without a window, and those with one as long as they keep theirs. Pages in use and cached ones alike. O(1)
/// per page; allocates nothing after construction. The pool's mutex guards it.
class PrefixCache final : public PageOwner {
 public:
  using Key = core::Hash128;

  /// `pools` outlive it and tell it of evictions.
  PrefixCache(const PrefixCacheOptions& options, const backend::Graph& graph, std::int32_t page_size,
              std::vector<PagePool>& pools, const std::shared_ptr<core::Memory>& memory);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  /// Keys of the empty history and of a history one page longer.
  Key root(std::uint64_t salt) const noexcept;
  Key next(const Key& before, std::span<const Token> page) const noexcept;

  /// The node of these tokens, -1 if there is none.
  std::int32_t find(const Key& key, std::span<const Token> page) const noexcept;
  /// A node's page in a group, -1 where it has none.
  std::int32_t page(std::int32_t node, std::size_t group) const noexcept {
    return pages_[static_cast<std::size_t>(node) * pools_.size() + group];
  }
  /// Remembers pages that were just computed: `pages(group)`, -1 for none. Where equal tokens have a page already, that
  /// one stays.
  template <class Pages>
  void insert(const Key& key, std::span<const Token> tokens, Pages pages) noexcept {
    const std::int32_t node = find_or_add(key, tokens);
    if (node < 0) return;
    for (std::size_t g = 0; g < pools_.size(); ++g) remember(node, g, pages(g));
  }

  /// Groups without a window: a node that loses the page of one is gone.
  bool keeps_all(std::size_t group) const noexcept { return windows_[group] == 0; }
  bool any_keeps_all() const noexcept { return any_keeps_all_; }

  void forget(std::size_t group, std::int32_t page, std::int32_t node) noexcept override;

  void count_hit(std::int32_t tokens) noexcept {
    ++stats_.hits;
    stats_.hit_tokens += static_cast<std::uint64_t>(tokens);
  }
  const PrefixCacheStats& stats() const noexcept { return stats_; }
  std::int32_t nodes() const noexcept { return static_cast<std::int32_t>(keys_.size() - free_.size()); }

  /// Empty when nodes, their pages' marks and the table of keys agree; otherwise what is wrong. For tests.
  std::string invariants() const;

 private:
  static constexpr std::int32_t none = -1;

  std::int32_t find_or_add(const Key& key, std::span<const Token> tokens) noexcept;
  void remember(std::int32_t node, std::size_t group, std::int32_t page) noexcept;
  void remove(std::int32_t node) noexcept;
  std::size_t home(const Key& key) const noexcept { return static_cast<std::size_t>(key.low) & mask_; }
  std::size_t bucket_of(const Key& key) const noexcept;
  std::span<const Token> tokens_of(std::int32_t node) const noexcept;

  std::vector<PagePool>& pools_;
  core::Hasher hasher_;
  std::size_t page_size_;
  std::vector<std::int32_t> windows_;  // per group
  bool any_keeps_all_ = false;
  core::Vector<Key> keys_;            // per node, and so on
  core::Vector<Token> tokens_;        // [nodes x page size]
  core::Vector<std::int32_t> pages_;  // [nodes x groups]
  core::Vector<std::int32_t> free_;   // nodes, a stack
  core::Vector<std::int32_t> table_;  // open addressing: nodes by key
  std::size_t mask_ = 0;
  PrefixCacheStats stats_;
};

}  // namespace llminfer::runtime
