#include "runtime/swap_space.h"

#include <algorithm>

namespace llminfer::runtime {

SwapSpace::SwapSpace(Pool& pool, std::size_t bytes, const std::shared_ptr<core::Memory>& memory) : pool_(pool) {
  double whole = 0;
  for (std::size_t g = 0; g < pool.groups(); ++g) {
    page_bytes_.push_back(static_cast<std::size_t>(pool.storage().page_bytes(static_cast<std::int32_t>(g))));
    whole += static_cast<double>(page_bytes_[g]) * pool.pages(g).size();
  }
  std::size_t end = 0;
  for (std::size_t g = 0; g < pool.groups(); ++g) {
    const double slots = static_cast<double>(bytes) * pool.pages(g).size() / whole;
    slots_.emplace_back(static_cast<std::int32_t>(std::min(slots, 1e9)), memory);
    offsets_.push_back(end);
    end += static_cast<std::size_t>(slots_[g].size()) * page_bytes_[g];
  }
  if (end > 0) data_ = core::Buffer::make(memory, end);
}

void SwapSpace::reserve(Kept& kept, std::int32_t context) const {
  if (data_.empty()) return;
  const std::int32_t most = (context + pool_.page_size() - 1) / pool_.page_size();
  kept.given_back.resize(slots_.size());
  kept.slots.assign(slots_.size(), core::Vector<std::int32_t>(data_.memory()));
  for (core::Vector<std::int32_t>& slots : kept.slots) slots.reserve(static_cast<std::size_t>(most));
}

/// Pages with computed tokens that the sequence still has.
std::int64_t SwapSpace::pages(const Sequence& sequence, std::size_t group) const noexcept {
  const std::int64_t end = (std::int64_t{sequence.computed()} + pool_.page_size() - 1) / pool_.page_size();
  return end - sequence.given_back(group);
}

std::span<std::byte> SwapSpace::slot(std::size_t group, std::int32_t index) noexcept {
  const std::size_t bytes = page_bytes_[group];
  return data_.span().subspan(offsets_[group] + static_cast<std::size_t>(index) * bytes, bytes);
}

bool SwapSpace::fits(const Sequence& sequence) const noexcept {
  if (!would_fit(sequence)) return false;
  for (std::size_t g = 0; g < slots_.size(); ++g) {
    if (pages(sequence, g) > slots_[g].free()) return false;
  }
  return true;
}

bool SwapSpace::would_fit(const Sequence& sequence) const noexcept {
  if (data_.empty() || sequence.usable() == 0) return false;
  for (std::size_t g = 0; g < slots_.size(); ++g) {
    if (pages(sequence, g) > slots_[g].size()) return false;
  }
  return true;
}

std::uint64_t SwapSpace::bytes(const Sequence& sequence) const noexcept {
  std::uint64_t all = 0;
  for (std::size_t g = 0; g < slots_.size(); ++g) {
    all += static_cast<std::uint64_t>(pages(sequence, g)) * page_bytes_[g];
  }
  return all;
}

bool SwapSpace::keep(Sequence& sequence, Kept& kept) noexcept {
  for (std::size_t g = 0; g < slots_.size(); ++g) {
    kept.given_back[g] = sequence.given_back(g);
    for (std::int64_t i = 0; i < pages(sequence, g); ++i) {
      const std::int32_t page = sequence.table(g)[static_cast<std::size_t>(sequence.given_back(g) + i)];
      kept.slots[g].push_back(slots_[g].take());  // fits() said so
      if (!pool_.storage().read_page(static_cast<std::int32_t>(g), page, slot(g, kept.slots[g].back())).ok()) {
        drop(kept);
        return false;
      }
    }
  }
  kept.computed = sequence.computed();
  sequence.evict();
  return true;
}

Shortage SwapSpace::bring_back(Sequence& sequence, Kept& kept) noexcept {
  const Shortage shortage = sequence.restore(kept.computed, kept.given_back);
  if (shortage.kind != Shortage::Kind::none) return shortage;
  for (std::size_t g = 0; g < slots_.size(); ++g) {
    for (std::size_t i = 0; i < kept.slots[g].size(); ++i) {
      const std::int32_t page = sequence.table(g)[static_cast<std::size_t>(kept.given_back[g]) + i];
      if (pool_.storage().write_page(static_cast<std::int32_t>(g), page, slot(g, kept.slots[g][i])).ok()) continue;
      sequence.evict();
      drop(kept);
      return {Shortage::Kind::device, 0, 0};
    }
  }
  drop(kept);
  return {};
}

void SwapSpace::drop(Kept& kept) noexcept {
  for (std::size_t g = 0; g < kept.slots.size(); ++g) {
    for (const std::int32_t index : kept.slots[g]) slots_[g].release(index);
    kept.slots[g].clear();
  }
  kept.computed = 0;
}

}  // namespace llminfer::runtime
