// What a Batcher does and has done: counts, rates and histograms, for programs and for Prometheus.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <llminfer/error.hpp>
#include <llminfer/export.hpp>

namespace llminfer {
inline namespace v0 {

/// Durations counted in buckets that double: bucket i holds those of at most upper(i) that are above upper(i - 1), the
/// last one everything beyond.
struct DurationHistogram {
  static constexpr int buckets = 32;
  std::array<std::uint64_t, buckets> counts{};
  std::chrono::nanoseconds sum{0};  ///< of all durations

  /// 1, 2, 4, ... microseconds; for i < buckets - 1. The last of them is about 18 minutes.
  static constexpr std::chrono::nanoseconds upper(int i) noexcept { return std::chrono::nanoseconds(1000LL << i); }

  /// Negative ones count as 0.
  void add(std::chrono::nanoseconds duration) noexcept {
    const std::int64_t ns = duration.count() > 0 ? duration.count() : 0;
    const auto micros = static_cast<std::uint64_t>((ns + 999) / 1000);
    const int bucket = micros <= 1 ? 0 : static_cast<int>(std::bit_width(micros - 1));
    ++counts[static_cast<std::size_t>(bucket < buckets ? bucket : buckets - 1)];
    sum += std::chrono::nanoseconds(ns);
  }
  std::uint64_t count() const noexcept {
    std::uint64_t all = 0;
    for (const std::uint64_t n : counts) all += n;
    return all;
  }
  /// The duration that a share `q` (0 .. 1) of the durations does not exceed, interpolated inside its bucket; 0 when
  /// there are none.
  LLMINFER_API std::chrono::nanoseconds quantile(double q) const noexcept;
};

/// A moment of a Batcher. Counts are since start, times by its clock.
struct BatchStats {
  int queued = 0;        ///< requests that wait for their first step
  int running = 0;       ///< requests that are computed now
  int preempted = 0;     ///< requests that wait after they lost their pages
  int pages_used = 0;    ///< of each state group, kept by anyone, cached ones included
  int pages_cached = 0;  ///< of these, kept by the prefix cache alone
  int pages_total = 0;

  std::uint64_t steps = 0;
  std::uint64_t prefill_tokens = 0;    ///< computed in chunks, what was computed again included
  std::uint64_t decode_tokens = 0;     ///< computed one a step
  std::uint64_t generated_tokens = 0;  ///< chosen
  std::uint64_t preemptions = 0;
  std::uint64_t swapped_out = 0;  ///< preemptions whose pages went to other memory instead of being computed again
  std::uint64_t swapped_in = 0;   ///< of these, came back
  std::uint64_t submitted = 0;
  std::uint64_t completed = 0;  ///< ended with a Finish other than cancelled
  std::uint64_t cancelled = 0;
  std::uint64_t failed = 0;         ///< ended with an Error
  std::uint64_t prefix_hits = 0;    ///< requests that found computed pages of their history
  std::uint64_t reused_tokens = 0;  ///< tokens that did not have to be computed for it

  double generated_per_second = 0;  ///< tokens chosen, over the last ten seconds
  double computed_per_second = 0;   ///< tokens computed, prompts included, over the last ten seconds

  DurationHistogram queue_time{};           ///< from submission to the first step
  DurationHistogram time_to_first_token{};  ///< from submission
  DurationHistogram time_between_tokens{};  ///< of one request; pauses for its client not counted
  DurationHistogram step_time{};            ///< of the device

  // Where the time of the Batcher's thread went.
  std::chrono::nanoseconds scheduling{0};  ///< planning, pages and queues; without waiting
  std::chrono::nanoseconds sampling{0};    ///< choosing tokens, and the callbacks
  std::chrono::nanoseconds up{0};          ///< since start

  /// Scheduling over scheduling, steps and sampling: 0 .. 1.
  double scheduling_share() const noexcept {
    const auto all = static_cast<double>((scheduling + sampling + step_time.sum).count());
    return all > 0 ? static_cast<double>(scheduling.count()) / all : 0;
  }
};

/// The statistics in the text format 0.0.4 of Prometheus, every metric's name after `prefix` and "_". `labels` goes
/// into the braces of every sample, as `model="a",zone="b"`; may be empty. Errors: invalid_argument for a prefix that
/// is no metric name, out_of_memory.
LLMINFER_API Result<std::string> to_prometheus(const BatchStats& stats, std::string_view prefix = "llminfer",
                                               std::string_view labels = {});

}  // namespace v0
}  // namespace llminfer
