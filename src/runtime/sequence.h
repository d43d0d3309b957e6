// One sequence: its tokens, how many of them are computed, and the pages that hold their keys and values.
#pragma once

#include <cstdint>
#include <llminfer/types.hpp>
#include <memory>
#include <span>
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

/// Not thread safe: the pool's mutex guards every call (with Paging::at_step only those that say so; the others belong
/// to the one thread that uses the sequence). Gives its pages back on destruction.
/// Invariant, at_append: in every state group the table covers ceil(size / page_size) pages, and the page that the next
/// token goes to is referred to by this sequence alone. at_step: the table covers at least the computed tokens.
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
  std::int32_t context() const noexcept { return context_; }
  Paging paging() const noexcept { return paging_; }
  const std::shared_ptr<Pool>& pool() const noexcept { return pool_; }
  const core::Vector<std::int32_t>& table(std::size_t group) const noexcept { return tables_[group]; }

  /// Adds tokens with the pages they need (a shared page that they would write into is copied first). Ids are checked
  /// by the caller. On a shortage nothing has changed. Allocates nothing but pages, and at_step not even those.
  Shortage append(std::span<const Token> tokens) noexcept;

  /// (mutex) Makes the table cover the first `tokens` tokens of the history, with pages of its own from the first
  /// uncomputed token on, and gives back pages behind the history. On a shortage no page was taken. at_step only; else
  /// there is nothing to do.
  Shortage reserve(std::int32_t tokens) noexcept;

  /// (mutex) How many pages reserve(tokens) would take; trims first.
  PageCounts missing_pages(std::int32_t tokens) noexcept;

  /// The last token is to be computed again; reserve() makes its page its own. at_step only.
  void forget_last() noexcept {
    if (computed_ == size() && computed_ > 0) --computed_;
  }

  /// (mutex) Gives all pages back; the tokens stay, uncomputed. at_step only.
  void evict() noexcept;

  /// (mutex) Gives back pages behind the history, which rewind() leaves in the table at_step.
  void trim() noexcept;

  /// Pages in its tables.
  PageCounts pages() const noexcept;

  /// (mutex) Makes the last token of the history one that is still to compute, in a page of its own, so that its logits
  /// can be had again. On a shortage nothing has changed. The history must not be empty.
  Shortage recompute_last() noexcept;

  /// The first `count` tokens after computed() are computed now.
  void commit(std::int32_t count) noexcept { computed_ += count; }

  /// Goes back to `size` tokens, 0 .. size(). at_step the pages stay until trim() or reserve().
  void rewind(std::int32_t size) noexcept;

  /// (mutex) Becomes a copy of `other` (same pool, context and paging) that shares its pages. This sequence must
  /// have no pages. The page that both would write into next is copied when the first of them appends.
  void share(const Sequence& other) noexcept;

 private:
  std::int32_t pages_for(std::int64_t tokens) const noexcept;
  Shortage own_last_pages(std::int32_t further_pages) noexcept;
  std::int32_t shared_pages(std::size_t group, std::size_t first) const noexcept;
  bool own_pages(std::size_t group, std::size_t first) noexcept;

  std::shared_ptr<Pool> pool_;
  std::int32_t context_;
  Paging paging_;
  std::int32_t computed_ = 0;
  core::Vector<Token> tokens_;
  std::vector<core::Vector<std::int32_t>> tables_;  // per state group
};

}  // namespace llminfer::runtime
