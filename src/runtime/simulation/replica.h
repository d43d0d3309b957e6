// One engine of a simulated server: the scheduler, the pages and the executor that serve real requests, on a device
// whose steps end at once and move a clock.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/clock.h"
#include "runtime/executor.h"
#include "runtime/scheduler.h"
#include "runtime/simulation/log_histogram.h"
#include "runtime/simulation/traffic_source.h"

namespace llminfer::runtime::simulation {

/// What all replicas count together.
struct Tally {
  std::int64_t completed = 0;
  std::int64_t failed = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  std::int64_t computed_tokens = 0;
  std::int64_t reused_tokens = 0;
  std::int64_t steps = 0;
  std::int64_t stepped_sequences = 0;
  std::int64_t preemptions = 0;
  std::int64_t busy_ns = 0;
  std::int64_t last_end_ns = 0;
  LogHistogram first_token;
  LogHistogram between_tokens;
  LogHistogram whole;
  LogHistogram queue_time;
};

struct ReplicaOptions {
  std::shared_ptr<Pool> pool{};
  std::shared_ptr<core::ManualClock> clock{};  ///< the device's
  BatchMode mode = BatchMode::chunked;
  std::int32_t max_sequences = 0;
  std::int32_t step_tokens = 0;
};

class Replica {
 public:
  Replica(ReplicaOptions options, Tally& tally);

  std::int64_t now_ns() const noexcept { return clock_->now_ns(); }
  /// Idle until then; never goes back.
  void wait_until(std::int64_t ns) noexcept { clock_->advance_ns(ns - now_ns()); }

  /// Requests that it has taken and not ended.
  std::int64_t load() const noexcept { return static_cast<std::int64_t>(live_.size()); }
  std::int64_t running() const noexcept { return running_; }
  /// Of its requests, those that wait for their first step.
  std::int64_t queued() const noexcept { return queued_; }
  double page_share() const noexcept;

  /// Takes requests from the queue's front, at most as many as bring its load to `most`. In mode fixed only when it has
  /// none, and not more than the pages hold to the end.
  void take(std::deque<Arrival>& queue, std::int64_t most);

  /// Plans and runs a step; the clock is at its end afterwards. Throws what the device reports.
  void step();

  const Pool& pool() const noexcept { return *pool_; }

 private:
  struct Request {
    std::unique_ptr<Sequence> sequence;
    ScheduledRequest view{};
    Arrival arrival{};
    std::int32_t produced = 0;  // tokens of the answer
    std::int32_t charged = 0;   // longest history that was computed
    std::int64_t last_token_ns = 0;
    bool started = false;
  };
  /// The device's account of a step.
  struct Span final : backend::ProfileSink {
    void on_span(const backend::OpSpan& span) noexcept override { ns += span.end_ns - span.start_ns; }
    std::int64_t ns = 0;
  };

  bool fits(const Arrival& arrival, std::int64_t& pages) const noexcept;
  void plan() noexcept;
  void apply_plan() noexcept;
  void build_step();
  void run_step();
  void commit(Request& request, const StepItem& item, Token chosen) noexcept;
  void remove_ended() noexcept;

  std::shared_ptr<Pool> pool_;
  std::shared_ptr<core::ManualClock> clock_;
  BatchMode mode_;
  SchedulerLimits limits_;
  Tally& tally_;
  std::vector<Request> live_;
  std::vector<ScheduledRequest> views_;
  Schedule schedule_;
  StepPlan step_;
  std::vector<std::size_t> stepped_;  // request of each item
  std::vector<std::int32_t> chosen_;  // token of each output row
  std::vector<float> scores_;
  std::vector<Token> prompt_;  // scratch
  backend::StopFlag stop_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t steps_ = 0;
  int fruitless_ = 0;  // plans without a step since the last one
  std::int64_t running_ = 0;
  std::int64_t queued_ = 0;
};

}  // namespace llminfer::runtime::simulation
