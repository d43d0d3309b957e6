// Time as an argument: deadlines and schedulers ask a Clock, so that a test or a simulated device can set the time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace llminfer::core {

/// Monotonic nanoseconds since an unspecified start. Any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::int64_t now_ns() const noexcept = 0;

 protected:
  Clock() = default;
  Clock(const Clock&) = default;
  Clock& operator=(const Clock&) = default;
};

/// The system's monotonic clock.
class SteadyClock final : public Clock {
 public:
  std::int64_t now_ns() const noexcept override {
    const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count();
  }
};

/// Stands still until it is told to move. Any thread.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(std::int64_t start_ns = 0) noexcept : now_(start_ns) {}
  std::int64_t now_ns() const noexcept override { return now_.load(std::memory_order_acquire); }
  /// Moves forward; a negative step is ignored, since the clock is monotonic.
  void advance_ns(std::int64_t step) noexcept {
    if (step > 0) now_.fetch_add(step, std::memory_order_acq_rel);
  }

 private:
  std::atomic<std::int64_t> now_;
};

}  // namespace llminfer::core
