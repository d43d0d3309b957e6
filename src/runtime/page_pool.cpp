#include "runtime/page_pool.h"

#include <fmt/format.h>

#include <vector>

namespace llminfer::runtime {

PagePool::PagePool(std::int32_t pages, const std::shared_ptr<core::Memory>& memory)
    : references_(static_cast<std::size_t>(pages), 0, memory), free_(memory) {
  free_.reserve(references_.size());
  for (std::int32_t p = pages - 1; p >= 0; --p) free_.push_back(p);  // low numbers first: they are touched first
}

std::int32_t PagePool::take() noexcept {
  if (free_.empty()) return -1;
  const std::int32_t page = free_.back();
  free_.pop_back();
  references_[static_cast<std::size_t>(page)] = 1;
  return page;
}

void PagePool::release(std::int32_t page) noexcept {
  if (--references_[static_cast<std::size_t>(page)] == 0) free_.push_back(page);  // within the reserved capacity
}

std::string PagePool::invariants(std::span<const std::int32_t> uses) const {
  std::vector<bool> is_free(references_.size(), false);
  for (const std::int32_t page : free_) {
    const auto p = static_cast<std::size_t>(page);
    if (p >= references_.size()) return fmt::format("page {} in the free list does not exist", page);
    if (is_free[p]) return fmt::format("page {} is free twice", page);
    is_free[p] = true;
  }
  if (uses.size() != references_.size())
    return fmt::format("{} use counts for {} pages", uses.size(), references_.size());
  for (std::size_t p = 0; p < references_.size(); ++p) {
    if (is_free[p] != (references_[p] == 0))
      return fmt::format("page {} with {} references, free: {}", p, references_[p], bool{is_free[p]});
    if (references_[p] != uses[p])
      return fmt::format("page {} has {} references and {} uses", p, references_[p], uses[p]);
  }
  return {};
}

}  // namespace llminfer::runtime
