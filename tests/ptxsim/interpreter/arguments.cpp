#include "interpreter/arguments.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace ptxsim {

Arguments::Arguments(std::span<const std::byte> parameters, const DeviceMemory& memory) {
  std::map<std::uint64_t, std::size_t> pointers;
  for (std::size_t at = 0; at + 8 <= parameters.size(); at += 8) {
    std::uint64_t value = 0;
    std::memcpy(&value, parameters.data() + at, 8);
    if (value == 0 || memory.range_of(value).end == 0 || !pointers.emplace(value, counts_.size()).second) continue;
    counts_.emplace_back();
    counts_.back().parameter = static_cast<std::uint32_t>(at);
  }
  for (auto it = pointers.begin(); it != pointers.end(); ++it) {
    const DeviceMemory::Range whole = memory.range_of(it->first);
    const bool lowest = ranges_.empty() || ranges_.back().begin < whole.begin;
    const auto next = std::next(it);
    const bool last = next == pointers.end() || next->first >= whole.end;
    ranges_.push_back({lowest ? whole.begin : it->first, last ? whole.end : next->first, it->second});
  }
}

ArgumentCounts* Arguments::of(std::uint64_t address) noexcept {
  const auto behind = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                       [](std::uint64_t a, const Range& r) { return a < r.begin; });
  if (behind == ranges_.begin() || address >= std::prev(behind)->end) return nullptr;
  return &counts_[std::prev(behind)->argument];
}

std::vector<ArgumentCounts> Arguments::counts() const { return counts_; }

}  // namespace ptxsim
