// Runs many requests through one pool: a loop on its own thread that plans, reserves, computes, samples and hands out.
#pragma once

#include <condition_variable>
#include <llminfer/batch_stats.hpp>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/memory.h"
#include "runtime/batch_request.h"
#include "runtime/beam_group.h"
#include "runtime/clock.h"
#include "runtime/executor.h"
#include "runtime/rate_window.h"
#include "runtime/scheduler.h"
#include "runtime/swap_space.h"

namespace llminfer::runtime {

struct BatchEngineOptions {
  std::shared_ptr<Pool> pool{};
  std::shared_ptr<core::Memory> memory{};  ///< of logits and the sampler's workspace
  std::int32_t max_sequences = 0;
  std::int32_t step_tokens = 0;
  std::size_t queue = 0;                          ///< most requests that wait for their first step
  std::size_t swap_bytes = 0;                     ///< of memory for pages that others need
  bool swap_always = false;                       ///< for tests: where it fits, whatever it costs
  std::shared_ptr<profile::Recorder> recorder{};  ///< null: none
  std::shared_ptr<const Clock> clock = std::make_shared<const SteadyClock>();  ///< of deadlines and statistics
};

/// (any thread) but for the constructor and run(). Locks: its mutex is never held while a step runs, a token is sampled
/// or a callback is called; nothing else is locked under it but the parking's. After run() has returned nothing changes
/// any more, and all requests have ended.
class BatchEngine {
 public:
  /// Takes all memory. Throws what memory reports.
  explicit BatchEngine(BatchEngineOptions options);
  ~BatchEngine() = default;
  BatchEngine(const BatchEngine&) = delete;
  BatchEngine& operator=(const BatchEngine&) = delete;

  /// The loop; returns after stop().
  void run() noexcept;
  /// Ends all requests as cancelled, the running step too where the device can.
  void stop() noexcept;

  /// Takes all or none. Throws queue_full, or cancelled after stop(). Requests of one prompt: the first's `followers`
  /// and the others' `leader` are set.
  void submit(std::span<const std::shared_ptr<BatchRequest>> requests);
  void cancel(BatchRequest& request) noexcept;

  enum class Waited { piece, ended, stopped };
  /// Gives back the piece handed out before (`had_one`), then waits for the next, the end or a stop request. A piece is
  /// the queue's front().
  Waited wait(BatchRequest& request, bool had_one, const std::stop_token& stop);
  /// Waits until the engine has let go of the request; then takes back what was not handed out. Sequence and members
  /// belong to the caller from then on.
  void reclaim(BatchRequest& request, bool had_one);
  /// As reclaim, for a request that is thrown away: does not wait.
  void abandon(BatchRequest& request) noexcept;

  BatchStats stats() const;
  const std::shared_ptr<Pool>& pool() const noexcept { return pool_; }
  /// Of class 0, see PageCounts.
  std::int32_t total_pages() const noexcept { return static_cast<std::int32_t>(limits_.total_pages[0]); }

 private:
  using Requests = std::vector<std::shared_ptr<BatchRequest>>;

  // Under the mutex.
  void join_callers(std::span<const std::shared_ptr<BatchRequest>> requests);
  void leave_caller(BatchRequest& request) noexcept;
  void take_incoming() noexcept;
  void sweep(Clock::time_point now) noexcept;
  bool sweep_once(Clock::time_point now) noexcept;
  void deliver(BatchRequest& request) noexcept;
  void finish(std::size_t index) noexcept;
  void cancel_locked(BatchRequest& request) noexcept;
  void publish() noexcept;
  void wait_for_work(std::unique_lock<std::mutex>& lock) noexcept;
  // Without it.
  void plan() noexcept;
  void apply_plan(Clock::time_point now) noexcept;
  bool swap_out(BatchRequest& request) noexcept;
  bool take_idle_slots(const BatchRequest& request) noexcept;
  void swap_in(BatchRequest& request) noexcept;
  void build_step() noexcept;
  Shortage::Kind reserve(Sequence& sequence) noexcept;
  void run_step() noexcept;
  int wants_top_alone() const noexcept;
  std::span<const std::uint32_t> fill_allowed() noexcept;
  void commit(std::size_t item, const ComputedRow& row, Clock::time_point now) noexcept;
  void choose(BatchRequest& request, const ComputedRow& row, Clock::time_point now) noexcept;
  void join(BatchRequest& request) noexcept;
  void fork_followers(BatchRequest& leader, const ComputedRow& row, Clock::time_point now) noexcept;
  void leave_group(BatchRequest& request) noexcept;
  void take_beam_row(BatchRequest& request, std::span<const float> logits, Clock::time_point now) noexcept;
  void count_token(BatchRequest& request, Clock::time_point now) noexcept;
  void hand_out(BatchRequest& request) noexcept;
  void call_ends() noexcept;
  void end_all() noexcept;
  void require_other_thread() const;
  void expect_prefixes() noexcept;
  void adopt_prefix(BatchRequest& request) noexcept;
  void count_pages(BatchStats& stats) const noexcept;

  const std::shared_ptr<Pool> pool_;
  const std::shared_ptr<const Clock> clock_;
  const Clock::time_point started_;
  const std::shared_ptr<profile::Recorder> recorder_;
  const SchedulerLimits limits_;
  const std::size_t capacity_;
  const std::size_t queue_limit_;

  // Of the engine's thread.
  SwapSpace swap_;
  SwapCost swap_cost_;
  const bool swap_always_;
  Requests live_;
  std::vector<ScheduledRequest> views_;
  Schedule schedule_;
  StepPlan step_;
  std::vector<std::size_t> stepped_;  // indices into live_, one an item of step_
  Requests ending_;                   // ended, their clients not told
  StepRows rows_;
  SamplerWorkspace sampler_;
  std::uint64_t arrivals_ = 0;
  BatchStats counts_;  // published under the mutex, with the rates
  RateWindow generated_;
  RateWindow computed_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Requests incoming_;
  std::unordered_map<std::uint64_t, BatchCaller> callers_;  // that have live requests
  bool changed_ = false;                                    // something happened that the loop must look at
  bool stopping_ = false;
  std::int32_t step_live_ = 0;  // requests in the running step that are not cancelled
  backend::StopFlag step_stop_;
  BatchStats stats_;
  RateWindow published_generated_;
  RateWindow published_computed_;

  std::thread::id thread_;  // that runs the loop

  Parking parking_;
};

}  // namespace llminfer::runtime
