// Which KV pages are free, cached or in use, and how often each is used. Knows numbers only, not contents.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/vector.h"

namespace llminfer::runtime {

/// Hears that a page whose content somebody remembered is about to be used for something else.
class PageOwner {
 public:
  virtual ~PageOwner() = default;
  virtual void forget(std::size_t group, std::int32_t page, std::int32_t node) noexcept = 0;
};

/// Free list, reference counts and the least-recently-used list of the pages of one state group. A page may carry a
/// mark, the number of a node of the prefix cache: without a reference it is then cached, which counts as free, and is
/// given away (oldest first) when no other is left. Everything in O(1); nothing allocates after construction.
class PagePool {
 public:
  explicit PagePool(std::int32_t pages, const std::shared_ptr<core::Memory>& memory = nullptr);

  std::int32_t size() const noexcept { return static_cast<std::int32_t>(slots_.size()); }
  /// Pages that take() can give, the cached ones included.
  std::int32_t free() const noexcept { return static_cast<std::int32_t>(free_.size()) + cached_; }
  std::int32_t cached() const noexcept { return cached_; }
  std::int32_t references(std::int32_t page) const noexcept { return at(page).references; }

  /// A page with one reference, -1 when none is free.
  std::int32_t take() noexcept;
  void share(std::int32_t page) noexcept;
  /// Takes one reference away; without any the page is free, or cached if it has a mark.
  void release(std::int32_t page) noexcept;

  /// The owner of marks and the group's number that it is told.
  void set_owner(PageOwner* owner, std::size_t group) noexcept {
    owner_ = owner;
    group_ = group;
  }
  /// -1: no mark.
  std::int32_t mark(std::int32_t page) const noexcept { return at(page).mark; }
  /// The page must be in use.
  void set_mark(std::int32_t page, std::int32_t node) noexcept { at(page).mark = node; }
  /// A cached page becomes a free one.
  void clear_mark(std::int32_t page) noexcept;
  /// clear_mark, if there is one, and tells the owner: for a page whose content changes.
  void disown(std::int32_t page) noexcept;

  /// Empty when every page is free, cached or in use, exactly one of them, and `uses[p]` (how often page p stands in
  /// page tables) equals its count; otherwise what is wrong. For tests.
  std::string invariants(std::span<const std::int32_t> uses) const;

 private:
  struct Slot {
    std::int32_t references = 0;
    std::int32_t mark = -1;
    std::int32_t before = -1;  // in the list of cached pages, oldest first
    std::int32_t after = -1;
  };
  Slot& at(std::int32_t page) noexcept { return slots_[static_cast<std::size_t>(page)]; }
  const Slot& at(std::int32_t page) const noexcept { return slots_[static_cast<std::size_t>(page)]; }
  void link(std::int32_t page) noexcept;
  void unlink(std::int32_t page) noexcept;

  core::Vector<Slot> slots_;
  core::Vector<std::int32_t> free_;  // a stack
  std::int32_t oldest_ = -1;
  std::int32_t newest_ = -1;
  std::int32_t cached_ = 0;
  PageOwner* owner_ = nullptr;
  std::size_t group_ = 0;
};

}  // namespace llminfer::runtime
