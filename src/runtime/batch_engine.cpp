#include "runtime/batch_engine.h"

#include <algorithm>

#include "core/guard.h"
#include "runtime/batch_engine_parts.h"

namespace llminfer::runtime {
namespace {

SchedulerLimits scheduler_limits(const Pool& pool, const BatchEngineOptions& options) {
  SchedulerLimits limits;
  limits.step_tokens = options.step_tokens;
  limits.max_sequences = options.max_sequences;
  limits.total_pages = pool.total_pages();
  return limits;
}

/// No deadline is that far away; what waits for less wakes up in time.
constexpr std::chrono::nanoseconds longest_nap = std::chrono::hours(1);

}  // namespace

BatchEngine::BatchEngine(BatchEngineOptions options)
    : pool_(std::move(options.pool)),
      clock_(std::move(options.clock)),
      started_(clock_->now()),
      recorder_(std::move(options.recorder)),
      limits_(scheduler_limits(*pool_, options)),
      capacity_(options.queue + 4 * static_cast<std::size_t>(options.max_sequences)),
      queue_limit_(options.queue),
      swap_(*pool_, options.swap_bytes, options.memory),
      swap_always_(options.swap_always),
      rows_(options.memory, pool_->graph().vocabulary, static_cast<std::size_t>(options.max_sequences)),
      sampler_(pool_->graph().vocabulary, options.memory.get()),
      generated_(started_),
      computed_(started_),
      published_generated_(started_),
      published_computed_(started_) {
  live_.reserve(capacity_);
  views_.reserve(capacity_);
  schedule_.reserve(capacity_);
  ending_.reserve(capacity_);
  incoming_.reserve(capacity_);
  step_.items.reserve(static_cast<std::size_t>(options.max_sequences));
  stepped_.reserve(static_cast<std::size_t>(options.max_sequences));
  counts_.pages_total = total_pages();
  stats_.pages_total = total_pages();
}

void BatchEngine::run() noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    thread_ = std::this_thread::get_id();
  }
  const profile::PartScope part(recorder_.get(), profile::Part::scheduling, profile::Part::outside);
  for (;;) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const Clock::time_point start = clock_->now();
      changed_ = false;
      take_incoming();
      sweep(start);
      counts_.scheduling += elapsed(start, clock_->now());
      publish();
      if (stopping_) break;
    }
    call_ends();
    plan();
    if (!step_.items.empty()) {
      run_step();
    } else if (schedule_.empty()) {
      const profile::PartScope waiting(recorder_.get(), profile::Part::idle, profile::Part::scheduling);
      std::unique_lock<std::mutex> lock(mutex_);
      wait_for_work(lock);
    }
  }
  end_all();
}

void BatchEngine::wait_for_work(std::unique_lock<std::mutex>& lock) noexcept {
  std::optional<Clock::time_point> until;
  for (const auto& request : live_) {
    const std::optional<Clock::time_point> at = deadline(*request);
    if (at && !request->generation.finished()) until = until ? std::min(*until, *at) : *at;
  }
  const auto ready = [&] { return changed_ || stopping_; };
  if (until) {
    const Clock::duration left = elapsed(clock_->now(), *until);
    if (left > Clock::duration::zero()) wake_.wait_for(lock, std::min(clock_->nap(left), longest_nap), ready);
  } else {
    wake_.wait(lock, ready);
  }
}

void BatchEngine::call_ends() noexcept {
  if (ending_.empty()) return;
  const profile::PartScope outside(recorder_.get(), profile::Part::outside, profile::Part::scheduling);
  for (auto& request : ending_) {
    if (!request->sink) continue;
    if (request->error) {
      request->sink->on_end(std::move(*request->error));
    } else {
      request->sink->on_end(core::guard("Batcher", [&] { return Outcome(request->outcome); }));
    }
    request->keeps_alive.reset();
  }
  ending_.clear();  // requests without a client go here, with their sequences
}

void BatchEngine::end_all() noexcept {
  call_ends();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    take_incoming();
    while (!live_.empty()) {
      end_early(*live_.back(), Finish::cancelled);
      finish(live_.size() - 1);
    }
    publish();
  }
  call_ends();
}

}  // namespace llminfer::runtime
