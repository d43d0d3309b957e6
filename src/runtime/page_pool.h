// Which KV pages are free and how often each is used. Knows numbers only, not contents.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/vector.h"

namespace llminfer::runtime {

/// Free list and reference counts of the pages of one state group. Everything in O(1); nothing allocates after
/// construction.
class PagePool {
 public:
  explicit PagePool(std::int32_t pages, const std::shared_ptr<core::Memory>& memory = nullptr);

  std::int32_t size() const noexcept { return static_cast<std::int32_t>(references_.size()); }
  std::int32_t free() const noexcept { return static_cast<std::int32_t>(free_.size()); }
  std::int32_t references(std::int32_t page) const noexcept { return references_[static_cast<std::size_t>(page)]; }

  /// A page with one reference, -1 when none is free.
  std::int32_t take() noexcept;
  void share(std::int32_t page) noexcept { ++references_[static_cast<std::size_t>(page)]; }
  /// Takes one reference away; without any the page is free.
  void release(std::int32_t page) noexcept;

  /// Empty when every page is free exactly if nobody refers to it and `uses[p]` (how often page p stands in page
  /// tables) equals its count; otherwise what is wrong. For tests.
  std::string invariants(std::span<const std::int32_t> uses) const;

 private:
  core::Vector<std::int32_t> references_;
  core::Vector<std::int32_t> free_;  // a stack
};

}  // namespace llminfer::runtime
