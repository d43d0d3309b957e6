// One sequence: its tokens, how many of them are computed, and the pages that hold their keys and values.
#pragma once

#include <cstdint>
#include <llminfer/types.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/vector.h"
#include "runtime/pool.h"

namespace llminfer::runtime {

/// Why reserve() refused: nothing, context or pages.
struct Shortage {
  enum class Kind { none, context, pages, device } kind = Kind::none;
  std::int64_t needed = 0;
  std::int64_t available = 0;
};

/// When a sequence takes the pages of its tokens.
enum class Paging : std::uint8_t {
  at_append,  ///< with the tokens, so that an append says at once that there is no room
  at_step,    ///< in reserve(), before a step: a history may wait without pages, and lose them (evict) and go on
};

/// Most pages of a group with a window that a sequence holds at a time, whatever its length: the window, a page that
/// may be taken back, the chunk of a step, and the ends of the first and last page.
constexpr std::int64_t window_pages(std::int64_t window, std::int64_t page_size, std::int64_t chunk) noexcept {
  return (window + page_size + chunk) / page_size + 2;
}

/// Not thread safe: the pool's mutex guards every call (with Paging::at_step only those that say so; the others belong
/// to the one thread that uses the sequence). Gives its pages back on destruction.
///
/// Page tables begin at position 0. In groups with a window, pages that no query can reach any more are given back when
/// a step has been committed: their entries are -1, and only those before them. Such a table reaches as far as the next
/// step can; another one covers, at_append, the whole history. The page that the next token goes to is then referred to
/// by this sequence alone. at_step, tables cover at least the computed tokens.
///
/// Going back further than the kept pages reach (a page's worth of tokens is always kept behind the window) makes the
/// whole history uncomputed: what the window saw is gone.
class Sequence {
 public:
  /// Reserves room for `context` tokens of history; throws bad_alloc.
  Sequence(std::shared_ptr<Pool> pool, std::int32_t context, Paging paging = Paging::at_append);
  ~Sequence();
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  std::span<const Token> tokens() const noexcept { return tokens_; }
  std::int32_t size() const noexcept { return static_cast<std::int32_t>(tokens_.size()); }
  std::int32_t computed() const noexcept { return computed_; }
  /// Of these, those whose pages the next step can build on: all, or none if a window is gone (see above).
  std::int32_t usable() const noexcept { return window_is_gone() ? 0 : computed_; }
  std::int32_t context() const noexcept { return context_; }
  Paging paging() const noexcept { return paging_; }
  const std::shared_ptr<Pool>& pool() const noexcept { return pool_; }
  const core::Vector<std::int32_t>& table(std::size_t group) const noexcept { return tables_[group]; }
  /// Entries of a group's table that are -1: the first ones.
  std::int32_t given_back(std::size_t group) const noexcept { return given_back_[group]; }

  /// Adds tokens with the pages they need (a shared page that they would write into is copied first). Ids are checked
  /// by the caller. On a shortage nothing has changed. Allocates nothing but pages, and at_step not even those.
  Shortage append(std::span<const Token> tokens) noexcept;

  /// (mutex) Makes the tables cover what the next step of up to the first `tokens` tokens of the history needs, with
  /// pages of its own from the first uncomputed token on, and gives back pages behind the history. On a shortage no
  /// page was taken. May find that the history must be computed anew (see above). at_append there is nothing to take
  /// but after that, and where pages of a window are shared with a fork.
  Shortage reserve(std::int32_t tokens) noexcept;

  /// (mutex) How many pages reserve(tokens) would take; trims first.
  PageCounts missing_pages(std::int32_t tokens) noexcept;

  /// The last token is to be computed again; reserve() makes its page its own. at_step only.
  void forget_last() noexcept {
    if (computed_ == size() && computed_ > 0) --computed_;
  }

  /// (mutex) Gives all pages back; the tokens stay, uncomputed. at_step only.
  void evict() noexcept;

  /// (mutex) Gives back pages behind the history, which rewind() leaves in the table at_step; without its window the
  /// history is uncomputed from then on.
  void trim() noexcept;

  /// Pages in its tables.
  PageCounts pages() const noexcept;

  /// (mutex) Makes the last token of the history one that is still to compute, in a page of its own, so that its logits
  /// can be had again. On a shortage nothing has changed. The history must not be empty.
  Shortage recompute_last() noexcept;

  /// (mutex) The first `count` tokens after computed() are computed now: whole pages go to the prefix cache, pages
  /// behind a window are given back.
  void commit(std::int32_t count) noexcept;

  /// Goes back to `size` tokens, 0 .. size(). at_step the pages stay until trim() or reserve().
  void rewind(std::int32_t size) noexcept;

  /// (mutex) Becomes a copy of `other` (same pool, context and paging) that shares its pages. This sequence must
  /// have no pages. The page that both would write into next is copied when the first of them appends.
  void share(const Sequence& other) noexcept;

  /// Pages of histories with another salt are never shared through the prefix cache. Before anything is computed, or
  /// what is computed already stays this sequence's own.
  void set_salt(std::uint64_t salt) noexcept;

  /// (mutex) Takes pages from the prefix cache for the beginning of the history, if nothing of it is computed; the last
  /// token is never among them. Returns how many tokens are computed by it. at_step only.
  std::int32_t adopt_prefix() noexcept;

  /// (mutex) Pages that adopt_prefix() would share with others that use them now: what need not be free for it.
  PageCounts prefix_in_use() noexcept;

  /// (mutex) Takes new pages where a saved (or swapped out) sequence had some and marks `computed` tokens as computed:
  /// group g's table has pages from entry given_back[g] on, as those of the saved one had; at_append further ones for
  /// the tokens to compute. The history must be there, nothing of it computed, and pages shared with nobody. Contents
  /// are the caller's to write before anything else is done. On a shortage nothing has changed.
  Shortage restore(std::int32_t computed, std::span<const std::int32_t> given_back) noexcept;

  /// Empty, or what is wrong with tables and counts. For tests.
  std::string invariants() const;

 private:
  std::int32_t window(std::size_t group) const noexcept { return pool_->graph().states[group].window; }
  std::int32_t pages_for(std::int64_t tokens) const noexcept;
  std::int32_t target(std::size_t group, std::int64_t tokens) const noexcept;
  std::int32_t first_seen(std::size_t group, std::int64_t position) const noexcept;
  bool window_is_gone() const noexcept;
  void trim_tables() noexcept;
  void restart() noexcept;
  void give_back_unseen() noexcept;
  void give_back(std::size_t group) noexcept;
  void begin_behind(std::size_t group, std::int32_t pages) noexcept;
  void extend(std::size_t group, std::int32_t pages) noexcept;
  Shortage own_last_pages(std::int64_t size_after) noexcept;
  std::int32_t shared_pages(std::size_t group, std::size_t first, std::size_t end) const noexcept;
  bool own_pages(std::size_t group, std::size_t first, std::size_t end) noexcept;
  std::size_t first_written() const noexcept;
  std::int32_t find_prefix() noexcept;
  void remember_pages(std::int32_t first, std::int32_t end) noexcept;
  void extend_keys(std::int32_t pages) noexcept;

  std::shared_ptr<Pool> pool_;
  std::int32_t context_;
  Paging paging_;
  std::int32_t computed_ = 0;
  std::int32_t rewrite_ = 0;  // at_append: tokens before this are computed again, in pages that may be shared
  core::Vector<Token> tokens_;
  std::vector<core::Vector<std::int32_t>> tables_;  // per state group
  std::vector<std::int32_t> given_back_;            // per state group: leading entries that are -1
  std::uint64_t salt_ = 0;
  core::Vector<PrefixCache::Key> keys_;  // of the first whole pages; as many as were needed so far
};

}  // namespace llminfer::runtime
