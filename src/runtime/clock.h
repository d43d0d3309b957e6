// The time that deadlines and statistics go by. Injected where time is virtual or must jump.
#pragma once

#include <chrono>
#include <limits>

namespace llminfer::runtime {

/// (any thread) Time may go backwards: whoever subtracts clamps.
class Clock {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::steady_clock::duration;

  virtual ~Clock() = default;
  virtual time_point now() const noexcept = 0;
  /// The most real time to sleep before now() is looked at again, for something that is due in `left` of this clock's
  /// time.
  virtual std::chrono::nanoseconds nap(duration left) const noexcept = 0;
};

/// The machine's steady clock. Has no state: one object serves all.
class SteadyClock final : public Clock {
 public:
  time_point now() const noexcept override { return std::chrono::steady_clock::now(); }
  std::chrono::nanoseconds nap(duration left) const noexcept override { return left; }
};

/// From `from` to `to`, at least 0; a clock that went back lets no time pass.
inline Clock::duration elapsed(Clock::time_point from, Clock::time_point to) noexcept {
  if (to <= from) return Clock::duration::zero();
  const Clock::duration most = Clock::duration::max();
  // Before the epoch a difference may be out of range.
  if (from.time_since_epoch().count() < 0 && to.time_since_epoch() > most + from.time_since_epoch()) return most;
  return to - from;
}

/// `from` + `wait` (not negative), or the latest time there is.
inline Clock::time_point later(Clock::time_point from, std::chrono::nanoseconds wait) noexcept {
  const auto most = std::numeric_limits<Clock::duration::rep>::max();
  const auto at = from.time_since_epoch().count();
  if (at > 0 && wait.count() > most - at) return Clock::time_point::max();
  return from + std::chrono::duration_cast<Clock::duration>(wait);
}

}  // namespace llminfer::runtime
