// What was going on over simulated time, in a bounded number of stretches: when they do not reach, two become one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <llminfer/simulate.hpp>
#include <vector>

namespace llminfer::runtime::simulation {

/// What holds between two events.
struct TimelineState {
  double page_share = 0;
  double running = 0;
  double queued = 0;
};

class Timeline {
 public:
  Timeline() { sums_.reserve(most); }

  /// `state` held since the time of the last call until `now`, which never goes back.
  void add(std::int64_t now, const TimelineState& state) noexcept {
    if (last_ < 0) last_ = now;
    while (last_ < now) {
      const auto i = static_cast<std::size_t>(last_ / width_);
      if (i >= most) {
        merge();
        continue;
      }
      if (sums_.size() <= i) sums_.resize(i + 1);
      const std::int64_t end = std::min(now, static_cast<std::int64_t>(i + 1) * width_);
      const auto time = static_cast<double>(end - last_);
      sums_[i].page_share += time * state.page_share;
      sums_[i].running += time * state.running;
      sums_[i].queued += time * state.queued;
      last_ = end;
    }
  }

  std::vector<SimulationMoment> moments() const {
    std::vector<SimulationMoment> out;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const std::int64_t begin = static_cast<std::int64_t>(i) * width_;
      const auto time = static_cast<double>(std::max<std::int64_t>(1, std::min(width_, last_ - begin)));
      out.push_back({1e-9 * static_cast<double>(begin), sums_[i].page_share / time, sums_[i].running / time,
                     sums_[i].queued / time});
    }
    return out;
  }
  /// Over all the time since 0.
  TimelineState mean() const noexcept {
    TimelineState sum;
    for (const TimelineState& s : sums_) {
      sum.page_share += s.page_share;
      sum.running += s.running;
      sum.queued += s.queued;
    }
    const auto time = static_cast<double>(std::max<std::int64_t>(1, last_));
    return {sum.page_share / time, sum.running / time, sum.queued / time};
  }

 private:
  static constexpr std::size_t most = 256;

  void merge() noexcept {
    for (std::size_t i = 0; i < (sums_.size() + 1) / 2; ++i) {
      TimelineState sum = sums_[2 * i];
      if (2 * i + 1 < sums_.size()) {
        sum.page_share += sums_[2 * i + 1].page_share;
        sum.running += sums_[2 * i + 1].running;
        sum.queued += sums_[2 * i + 1].queued;
      }
      sums_[i] = sum;
    }
    sums_.resize((sums_.size() + 1) / 2);
    width_ *= 2;
  }

  std::vector<TimelineState> sums_;  // times nanoseconds
  std::int64_t width_ = 1'000'000;   // nanoseconds of a stretch
  std::int64_t last_ = -1;
};

}  // namespace llminfer::runtime::simulation
