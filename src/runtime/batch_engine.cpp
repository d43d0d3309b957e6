#include "runtime/batch_engine.h"

#include <algorithm>

#include "core/fail.h"
#include "core/guard.h"

namespace llminfer::runtime {
namespace {

SchedulerLimits scheduler_limits(const BatchEngineOptions& options) {
  SchedulerLimits limits;
  limits.step_tokens = options.step_tokens;
  limits.max_sequences = options.max_sequences;
  limits.total_pages = options.pool->pages(0).size();
  for (std::size_t g = 1; g < options.pool->groups(); ++g) {
    limits.total_pages = std::min(limits.total_pages, options.pool->pages(g).size());
  }
  return limits;
}

/// The earlier of the deadlines that still count.
std::optional<BatchRequest::Clock::time_point> deadline(const BatchRequest& request) noexcept {
  using Clock = BatchRequest::Clock;
  std::optional<Clock::time_point> at;
  const auto consider = [&](std::chrono::nanoseconds limit) {
    if (limit.count() <= 0 || limit > Clock::time_point::max() - request.start) return;
    const Clock::time_point end = request.start + std::chrono::duration_cast<Clock::duration>(limit);
    at = at ? std::min(*at, end) : end;
  };
  consider(request.deadlines.whole);
  if (!request.first_token_out) consider(request.deadlines.first_token);
  return at;
}

/// Ends a generation before its own end, with what waits in it taken back.
void end_early(BatchRequest& request, Finish finish) noexcept {
  request.generation.end(finish);
  request.generation.drop_waiting(request.sequence);
}

/// Without memory for the message there is an Error without one.
Error make_error(ErrorCode code, const char* message, std::int64_t needed = 0, std::int64_t available = 0) noexcept {
  Error error{code, {}, "Batcher", needed, available};
  try {
    error.message = message;
  } catch (...) {  // bad_alloc
  }
  return error;
}

void end_with(BatchRequest& request, Error error) noexcept {
  request.error = std::move(error);
  end_early(request, Finish::cancelled);
}

}  // namespace

BatchEngine::BatchEngine(BatchEngineOptions options)
    : pool_(std::move(options.pool)),
      limits_(scheduler_limits({pool_, options.memory, options.max_sequences, options.step_tokens, options.queue})),
      capacity_(options.queue + 4 * static_cast<std::size_t>(options.max_sequences)),
      queue_limit_(options.queue),
      rows_(core::Array<float>::make(options.memory, static_cast<std::size_t>(options.max_sequences) *
                                                         static_cast<std::size_t>(pool_->graph().vocabulary))),
      sampler_(pool_->graph().vocabulary, options.memory.get()) {
  live_.reserve(capacity_);
  views_.reserve(capacity_);
  schedule_.reserve(capacity_);
  ending_.reserve(capacity_);
  incoming_.reserve(capacity_);
  step_.items.reserve(static_cast<std::size_t>(options.max_sequences));
  stepped_.reserve(static_cast<std::size_t>(options.max_sequences));
  counts_.pages_total = limits_.total_pages;
  stats_.pages_total = limits_.total_pages;
}

void BatchEngine::run() noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    thread_ = std::this_thread::get_id();
  }
  for (;;) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      changed_ = false;
      take_incoming();
      sweep(Clock::now());
      publish();
      if (stopping_) break;
    }
    call_ends();
    plan();
    if (!step_.items.empty()) {
      run_step();
    } else if (schedule_.empty()) {
      std::unique_lock<std::mutex> lock(mutex_);
      wait_for_work(lock);
    }
  }
  end_all();
}

void BatchEngine::stop() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  step_stop_.request();
  wake_.notify_all();
}

void BatchEngine::submit(std::shared_ptr<BatchRequest> request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) core::fail(ErrorCode::cancelled, "the batcher is being destroyed");
  const auto queued = static_cast<std::size_t>(stats_.queued);
  const std::size_t all = queued + static_cast<std::size_t>(stats_.running + stats_.preempted);
  if (queued >= queue_limit_ || all >= capacity_) {
    core::fail_amount(ErrorCode::queue_full, static_cast<std::int64_t>(queued) + 1,
                      static_cast<std::int64_t>(queue_limit_), "{} requests wait, the queue has room for {}", queued,
                      queue_limit_);
  }
  incoming_.push_back(std::move(request));
  ++stats_.queued;
  ++stats_.submitted;
  changed_ = true;
  wake_.notify_one();
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
  }
  const std::unique_lock<std::mutex> lock(pool_->mutex(), std::try_to_lock);
  if (lock.owns_lock()) out.pages_used = limits_.total_pages - free_pages();  // else as of the last step
  return out;
}

std::int32_t BatchEngine::free_pages() const noexcept {
  std::int32_t free = pool_->pages(0).free();
  for (std::size_t g = 1; g < pool_->groups(); ++g) free = std::min(free, pool_->pages(g).free());
  return free;
}

// The loop, under the mutex.

void BatchEngine::take_incoming() noexcept {
  if (incoming_.empty()) return;
  double least = 0;  // a newcomer starts with the share of those that got least, not with a claim to all of the past
  bool first = true;
  for (const auto& request : live_) {
    if (!request->view.ready) continue;
    least = first ? request->view.served : std::min(least, request->view.served);
    first = false;
  }
  for (auto& request : incoming_) {
    request->view.arrival = arrivals_++;
    request->view.arrival_step = counts_.steps;
    request->view.served = least;
    request->charged = request->sequence.computed();
    live_.push_back(std::move(request));
  }
  incoming_.clear();
}

void BatchEngine::deliver(BatchRequest& request) noexcept {
  request.blocked = false;
  if (request.sink) return;  // has got everything already
  bool came = false;
  while (const Generation::Waiting* front = request.generation.front()) {
    if (!request.queue.push(request.generation.piece_of(*front))) {
      request.blocked = true;
      break;
    }
    request.generation.pop_front();
    request.first_token_out = came = true;
  }
  if (came) request.changed.notify_all();
}

/// Ends what must end, hands pieces to the queues, and sees who can go on.
void BatchEngine::sweep(Clock::time_point now) noexcept {
  for (std::size_t i = 0; i < live_.size();) {
    BatchRequest& request = *live_[i];
    request.in_step = false;
    if (request.cancelled && !request.error) end_early(request, Finish::cancelled);
    const std::optional<Clock::time_point> until = deadline(request);
    if (until && now >= *until && !request.generation.finished()) end_early(request, Finish::deadline);
    deliver(request);
    if (request.generation.finished() && request.generation.front() == nullptr) {
      finish(i);
      continue;
    }
    ++i;
  }
}

/// Lets go of a request; its client hears of it in call_ends() or finds out itself.
void BatchEngine::finish(std::size_t index) noexcept {
  BatchRequest& request = *live_[index];
  request.outcome.finish = *request.generation.finished();
  request.outcome.stop_string.assign(request.generation.stop_string());  // within its capacity
  if (request.error) {
    ++counts_.failed;
  } else {
    ++(request.outcome.finish == Finish::cancelled ? counts_.cancelled : counts_.completed);
  }
  if (!request.sink && !request.abandoned && request.sequence.pages() > 0) {
    parking_.park(request.parked, request.sequence);
  }
  request.ended = true;
  request.changed.notify_all();
  ending_.push_back(std::move(live_[index]));
  if (index + 1 < live_.size()) live_[index] = std::move(live_.back());
  live_.pop_back();
}

void BatchEngine::publish() noexcept {
  counts_.queued = counts_.running = counts_.preempted = 0;
  for (const auto& request : live_) {
    ++(request->view.running ? counts_.running : request->started ? counts_.preempted : counts_.queued);
  }
  const std::uint64_t submitted = stats_.submitted;
  stats_ = counts_;
  stats_.submitted = submitted;
}

void BatchEngine::wait_for_work(std::unique_lock<std::mutex>& lock) noexcept {
  std::optional<Clock::time_point> until;
  for (const auto& request : live_) {
    const std::optional<Clock::time_point> at = deadline(*request);
    if (at && !request->generation.finished()) until = until ? std::min(*until, *at) : *at;
  }
  const auto ready = [&] { return changed_ || stopping_; };
  if (until) {
    wake_.wait_until(lock, *until, ready);
  } else {
    wake_.wait(lock, ready);
  }
}

// The loop, without the mutex.

void BatchEngine::plan() noexcept {
  pool_->give_way();
  const std::lock_guard<std::mutex> lock(pool_->mutex());
  views_.clear();
  for (const auto& request : live_) {
    ScheduledRequest& view = request->view;
    view.ready = !request->generation.finished() && request->generation.front() == nullptr;
    if (view.ready) request->sequence.forget_last();  // its logits are wanted
    view.tokens = request->sequence.size();
    view.computed = request->sequence.computed();
    view.missing = request->sequence.missing_pages(view.tokens);
    view.pages = request->sequence.pages();
    views_.push_back(view);
  }
  const std::int64_t free = free_pages() + parking_.pages();
  schedule(limits_,
           {views_, static_cast<std::int32_t>(std::min<std::int64_t>(free, limits_.total_pages)), counts_.steps},
           schedule_);
  apply_plan();
  build_step();
  counts_.pages_used = limits_.total_pages - free_pages();
}

void BatchEngine::apply_plan() noexcept {
  for (const std::int32_t i : schedule_.preempt) {
    BatchRequest& request = *live_[static_cast<std::size_t>(i)];
    request.sequence.evict();
    counts_.preemptions += request.view.running ? 1 : 0;
    request.view.running = false;
  }
  for (const std::int32_t i : schedule_.admit) {
    BatchRequest& request = *live_[static_cast<std::size_t>(i)];
    request.view.running = true;
    request.started = true;
  }
  for (const std::int32_t i : schedule_.fail) {
    BatchRequest& request = *live_[static_cast<std::size_t>(i)];
    end_with(request, make_error(ErrorCode::out_of_pages, "the pool has no pages for the sequence, even alone",
                                 request.view.missing, free_pages()));
  }
}

/// Takes the pages of each item. One that gets none (others hold pages that this plan counted on) sits out; the next
/// plan sees the true numbers.
void BatchEngine::build_step() noexcept {
  step_.items.clear();
  stepped_.clear();
  for (const Schedule::Item& item : schedule_.items) {
    const auto index = static_cast<std::size_t>(item.request);
    Sequence& sequence = live_[index]->sequence;
    const Shortage::Kind shortage = reserve(sequence);
    if (shortage == Shortage::Kind::device) {
      end_with(*live_[index], make_error(ErrorCode::device_lost, "the device could not copy a page"));
    }
    if (shortage != Shortage::Kind::none) continue;
    const bool last = item.count == sequence.size() - sequence.computed();
    step_.items.push_back({&sequence, item.count, last ? RowsWanted::last : RowsWanted::none});
    stepped_.push_back(index);
  }
}

Shortage::Kind BatchEngine::reserve(Sequence& sequence) noexcept {
  for (;;) {
    const Shortage::Kind shortage = sequence.reserve(sequence.size()).kind;
    if (shortage != Shortage::Kind::pages || !parking_.reclaim()) return shortage;
  }
}

void BatchEngine::run_step() noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    step_live_ = 0;
    for (const std::size_t i : stepped_) {
      live_[i]->in_step = !live_[i]->cancelled;
      step_live_ += live_[i]->in_step ? 1 : 0;
    }
    step_stop_.clear();
    if (stopping_ || step_live_ == 0) return;
  }
  backend::StepOutputs outputs;
  outputs.values = rows_.span();
  backend::Status status;
  {
    const std::lock_guard<std::mutex> lock(pool_->mutex());
    status = pool_->executor().run(*pool_, step_, outputs, step_stop_);
  }
  ++counts_.steps;
  if (!status.ok() && status.code == ErrorCode::cancelled) return;
  const auto width = static_cast<std::size_t>(pool_->graph().vocabulary);
  std::size_t row = 0;
  for (std::size_t k = 0; k < stepped_.size(); ++k) {
    if (!status.ok()) {
      end_with(*live_[stepped_[k]], make_error(status.code, status.message));
      continue;
    }
    const bool wanted = step_.items[k].rows == RowsWanted::last;
    commit(k, wanted ? rows_.span().subspan(row * width, width) : std::span<float>());
    row += wanted ? 1 : 0;
  }
}

/// Counts what an item computed and, if its history is complete, chooses the next token.
void BatchEngine::commit(std::size_t item, std::span<const float> logits) noexcept {
  BatchRequest& request = *live_[stepped_[item]];
  const std::int32_t computed = request.sequence.computed();
  (step_.items[item].count == 1 ? counts_.decode_tokens : counts_.prefill_tokens) +=
      static_cast<std::uint64_t>(step_.items[item].count);
  if (computed > request.charged) {
    request.view.served += (computed - request.charged) / request.weight;
    request.charged = computed;
  }
  if (logits.empty()) return;
  Result<void> stepped =
      core::guard("Batcher", [&] { return request.generation.step(logits, sampler_, request.sequence); });
  if (!stepped) {
    end_with(request, std::move(stepped).error());
    return;
  }
  if (request.sink) hand_out(request);
}

/// Calls the client with all pieces that may go out. Its exception is its own request's error.
void BatchEngine::hand_out(BatchRequest& request) noexcept {
  while (const Generation::Waiting* front = request.generation.front()) {
    const Piece piece = request.generation.piece_of(*front);
    const Result<bool> more = core::guard("Batcher", [&] { return request.sink->on_piece(piece); });
    request.generation.pop_front();
    request.first_token_out = true;
    ++request.outcome.new_tokens;
    if (!more) {
      end_with(request, make_error(ErrorCode::callback_failed, more.error().message.c_str()));
      return;
    }
    if (!*more) {
      end_early(request, Finish::cancelled);
      return;
    }
  }
}

void BatchEngine::call_ends() noexcept {
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
