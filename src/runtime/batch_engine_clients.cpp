// What clients call, from any thread.
#include <algorithm>

#include "core/fail.h"
#include "runtime/batch_engine.h"

namespace llminfer::runtime {

void BatchEngine::stop() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  step_stop_.request();
  wake_.notify_all();
}

void BatchEngine::submit(std::span<const std::shared_ptr<BatchRequest>> requests) {
  for (const auto& request : requests) swap_.reserve(request->swapped, request->sequence.context());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) core::fail(ErrorCode::cancelled, "the batcher is being destroyed");
  const auto queued = static_cast<std::size_t>(stats_.queued);
  const auto more = static_cast<std::size_t>(
      std::count_if(requests.begin(), requests.end(), [](const auto& request) { return request->counts(); }));
  if (queued + more > queue_limit_) {
    core::fail_amount(ErrorCode::queue_full, static_cast<std::int64_t>(queued + more),
                      static_cast<std::int64_t>(queue_limit_), "{} requests wait, the queue has room for {}", queued,
                      queue_limit_);
  }
  const std::size_t sequences = live_.size() + incoming_.size() + requests.size();  // live_ changes under the mutex
  if (sequences > capacity_) {
    core::fail_amount(ErrorCode::queue_full, static_cast<std::int64_t>(sequences), static_cast<std::int64_t>(capacity_),
                      "{} sequences are there, with {} more there would be over {}", sequences - requests.size(),
                      requests.size(), capacity_);
  }
  join_callers(requests);
  const Clock::time_point now = clock_->now();
  for (const std::shared_ptr<BatchRequest>& request : requests) {
    request->start = now;
    incoming_.push_back(request);
  }
  stats_.queued += static_cast<int>(more);
  stats_.submitted += more;
  changed_ = true;
  wake_.notify_one();
}

/// All or none; throws bad_alloc.
void BatchEngine::join_callers(std::span<const std::shared_ptr<BatchRequest>> requests) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    try {
      requests[i]->caller = &callers_[requests[i]->caller_id];
    } catch (...) {
      for (std::size_t k = 0; k < i; ++k) leave_caller(*requests[k]);
      throw;
    }
    ++requests[i]->caller->live;
  }
}

void BatchEngine::leave_caller(BatchRequest& request) noexcept {
  if (--request.caller->live == 0) callers_.erase(request.caller_id);
  request.caller = nullptr;
}

void BatchEngine::cancel_locked(BatchRequest& request) noexcept {
  request.cancelled = true;
  if (request.ended) return;
  changed_ = true;
  wake_.notify_one();
  if (!request.in_step) return;
  request.in_step = false;
  if (--step_live_ == 0) step_stop_.request();
}

void BatchEngine::cancel(BatchRequest& request) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  cancel_locked(request);
  request.changed.notify_all();
}

void BatchEngine::require_other_thread() const {
  if (std::this_thread::get_id() == thread_) {
    core::fail(ErrorCode::invalid_argument, "a callback of the batcher cannot wait for the batcher");
  }
}

BatchEngine::Waited BatchEngine::wait(BatchRequest& request, bool had_one, const std::stop_token& stop) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (had_one) request.queue.pop();
  if (had_one && request.blocked) {
    changed_ = true;
    wake_.notify_one();
  }
  const auto ready = [&] { return !request.queue.empty() || request.ended || request.cancelled; };
  if (!ready()) require_other_thread();
  request.changed.wait(lock, stop, ready);
  if (stop.stop_requested()) return Waited::stopped;
  if (request.cancelled && !(request.ended && request.queue.empty())) return Waited::stopped;
  return request.queue.empty() ? Waited::ended : Waited::piece;
}

void BatchEngine::reclaim(BatchRequest& request, bool had_one) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!request.ended) {
      require_other_thread();
      cancel_locked(request);
      request.changed.wait(lock, [&] { return request.ended; });
    }
  }
  parking_.unpark(request.parked);
  const std::size_t ahead = request.queue.size() - (had_one ? 1 : 0);
  request.sequence.rewind(request.sequence.size() - static_cast<std::int32_t>(ahead));
  const PoolLock lock(*pool_);
  request.sequence.trim();
}

void BatchEngine::abandon(BatchRequest& request) noexcept {
  bool ended = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    request.abandoned = true;
    ended = request.ended;
    cancel_locked(request);
  }
  if (ended) parking_.unpark(request.parked);
}

BatchStats BatchEngine::stats() const {
  BatchStats out;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    out = stats_;
    const Clock::time_point now = clock_->now();
    out.up = elapsed(started_, now);
    out.generated_per_second = published_generated_.per_second(now);
    out.computed_per_second = published_computed_.per_second(now);
  }
  const std::unique_lock<std::mutex> lock(pool_->mutex(), std::try_to_lock);
  if (lock.owns_lock()) count_pages(out);  // else as of the last step
  return out;
}

}  // namespace llminfer::runtime
