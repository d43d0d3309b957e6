// How many of something a second, lately.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "runtime/clock.h"

namespace llminfer::runtime {

/// Counts in slots of a second; allocates nothing.
class RateWindow {
 public:
  static constexpr std::int64_t seconds = 10;

  explicit RateWindow(Clock::time_point start) noexcept : start_(start) {}

  void add(Clock::time_point now, std::uint64_t count) noexcept {
    const std::int64_t second = second_of(now);
    Slot& slot = slots_[static_cast<std::size_t>(second % seconds)];
    if (slot.second != second) slot = {second, 0};
    slot.count += count;
  }
  /// Over the last nine to ten seconds (whole ones, and the part of the one that runs), or since start if that is less.
  double per_second(Clock::time_point now) const noexcept {
    const std::int64_t second = second_of(now);
    std::uint64_t count = 0;
    for (const Slot& slot : slots_) {
      if (slot.second > second - seconds && slot.second <= second) count += slot.count;
    }
    if (count == 0) return 0;
    const double since_start = std::chrono::duration<double>(elapsed(start_, now)).count();
    const double since_first_slot = since_start - static_cast<double>(std::max<std::int64_t>(0, second - seconds + 1));
    return static_cast<double>(count) / std::max(since_first_slot, 1e-3);
  }

 private:
  struct Slot {
    std::int64_t second = -1;
    std::uint64_t count = 0;
  };
  std::int64_t second_of(Clock::time_point now) const noexcept {
    return std::chrono::duration_cast<std::chrono::seconds>(elapsed(start_, now)).count();
  }

  Clock::time_point start_;
  std::array<Slot, seconds> slots_{};
};

}  // namespace llminfer::runtime
