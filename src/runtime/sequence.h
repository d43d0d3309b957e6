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

/// Not thread safe: the pool's mutex guards every call. Gives its pages back on destruction.
/// Invariant: in every state group the table covers ceil(size / page_size) pages, and the page that the next token goes
/// to is referred to by this sequence alone.
class Sequence {
 public:
  /// Reserves room for `context` tokens of history; throws bad_alloc.
  Sequence(std::shared_ptr<Pool> pool, std::int32_t context);
  ~Sequence();
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  std::span<const Token> tokens() const noexcept { return tokens_; }
  std::int32_t size() const noexcept { return static_cast<std::int32_t>(tokens_.size()); }
  std::int32_t computed() const noexcept { return computed_; }
  std::int32_t context() const noexcept { return context_; }
  const std::shared_ptr<Pool>& pool() const noexcept { return pool_; }
  const core::Vector<std::int32_t>& table(std::size_t group) const noexcept { return tables_[group]; }

  /// Adds tokens with the pages they need (a shared page that they would write into is copied first). Ids are checked
  /// by the caller. On a shortage nothing has changed. Allocates nothing but pages.
  Shortage append(std::span<const Token> tokens) noexcept;

  /// Makes the last token of the history one that is still to compute, in a page of its own, so that its logits can be
  /// had again. On a shortage nothing has changed. The history must not be empty.
  Shortage recompute_last() noexcept;

  /// The first `count` tokens after computed() are computed now.
  void commit(std::int32_t count) noexcept { computed_ += count; }

  /// Goes back to `size` tokens, 0 .. size().
  void rewind(std::int32_t size) noexcept;

  /// Becomes a copy of `other` (same pool and context) that shares its pages. This sequence must be empty. The page
  /// that both would write into next is copied when the first of them appends.
  void share(const Sequence& other) noexcept;

 private:
  std::int32_t pages_for(std::int64_t tokens) const noexcept;
  Shortage own_last_pages(std::int32_t further_pages) noexcept;

  std::shared_ptr<Pool> pool_;
  std::int32_t context_;
  std::int32_t computed_ = 0;
  core::Vector<Token> tokens_;
  std::vector<core::Vector<std::int32_t>> tables_;  // per state group
};

}  // namespace llminfer::runtime
