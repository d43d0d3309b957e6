#include "runtime/page_pool.h"

#include <fmt/format.h>

#include <vector>

namespace llminfer::runtime {

PagePool::PagePool(std::int32_t pages, const std::shared_ptr<core::Memory>& memory)
    : slots_(static_cast<std::size_t>(pages), Slot(), memory), free_(memory) {
  free_.reserve(slots_.size());
  for (std::int32_t p = pages - 1; p >= 0; --p) free_.push_back(p);  // low numbers first: they are touched first
}

std::int32_t PagePool::take() noexcept {
  if (free_.empty() && oldest_ >= 0) disown(oldest_);
  if (free_.empty()) return -1;
  const std::int32_t page = free_.back();
  free_.pop_back();
  at(page).references = 1;
  return page;
}

void PagePool::share(std::int32_t page) noexcept {
  if (at(page).references++ == 0) unlink(page);
}

void PagePool::release(std::int32_t page) noexcept {
  if (--at(page).references > 0) return;
  if (at(page).mark >= 0) {
    link(page);
  } else {
    free_.push_back(page);  // within the reserved capacity
  }
}

void PagePool::link(std::int32_t page) noexcept {
  at(page).before = newest_;
  at(page).after = -1;
  (newest_ >= 0 ? at(newest_).after : oldest_) = page;
  newest_ = page;
  ++cached_;
}

void PagePool::unlink(std::int32_t page) noexcept {
  Slot& slot = at(page);
  (slot.before >= 0 ? at(slot.before).after : oldest_) = slot.after;
  (slot.after >= 0 ? at(slot.after).before : newest_) = slot.before;
  slot.before = slot.after = -1;
  --cached_;
}

void PagePool::clear_mark(std::int32_t page) noexcept {
  if (at(page).mark < 0) return;
  at(page).mark = -1;
  if (at(page).references > 0) return;
  unlink(page);
  free_.push_back(page);
}

void PagePool::disown(std::int32_t page) noexcept {
  const std::int32_t node = at(page).mark;
  if (node < 0) return;
  clear_mark(page);
  if (owner_ != nullptr) owner_->forget(group_, page, node);
}

std::string PagePool::invariants(std::span<const std::int32_t> uses) const {
  std::vector<bool> listed(slots_.size(), false);
  for (const std::int32_t page : free_) {
    const auto p = static_cast<std::size_t>(page);
    if (p >= slots_.size()) return fmt::format("page {} in the free list does not exist", page);
    if (listed[p]) return fmt::format("page {} is free twice", page);
    if (slots_[p].mark >= 0) return fmt::format("free page {} has a mark", page);
    listed[p] = true;
  }
  std::int32_t cached = 0;
  std::int32_t before = -1;
  for (std::int32_t page = oldest_; page >= 0; page = at(page).after) {
    const auto p = static_cast<std::size_t>(page);
    if (p >= slots_.size()) return fmt::format("page {} in the list of cached pages does not exist", page);
    if (listed[p]) return fmt::format("page {} is cached twice, or free", page);
    if (slots_[p].mark < 0) return fmt::format("cached page {} has no mark", page);
    if (slots_[p].before != before) return fmt::format("cached page {} has a wrong link", page);
    listed[p] = true;
    before = page;
    ++cached;
  }
  if (cached != cached_ || newest_ != before) return fmt::format("{} cached pages, {} listed", cached_, cached);
  if (uses.size() != slots_.size()) return fmt::format("{} use counts for {} pages", uses.size(), slots_.size());
  for (std::size_t p = 0; p < slots_.size(); ++p) {
    if (listed[p] != (slots_[p].references == 0)) {
      return fmt::format("page {} with {} references, listed: {}", p, slots_[p].references, bool{listed[p]});
    }
    if (slots_[p].references != uses[p]) {
      return fmt::format("page {} has {} references and {} uses", p, slots_[p].references, uses[p]);
    }
  }
  return {};
}

}  // namespace llminfer::runtime
