// Requests come, get their pieces to the queues, and go: under the mutex.
#include <algorithm>
#include <utility>

#include "runtime/batch_engine.h"
#include "runtime/batch_engine_parts.h"

namespace llminfer::runtime {

std::optional<Clock::time_point> deadline(const BatchRequest& request) noexcept {
  std::optional<Clock::time_point> at;
  const auto consider = [&](std::chrono::nanoseconds limit) {
    if (limit.count() <= 0) return;
    const Clock::time_point end = later(request.start, limit);
    at = at ? std::min(*at, end) : end;
  };
  consider(request.deadlines.whole);
  if (!request.first_token_out) consider(request.deadlines.first_token);
  return at;
}

void end_early(BatchRequest& request, Finish finish) noexcept {
  if (request.beams) {
    request.beams->end(finish);
    return;
  }
  request.generation.end(finish);
  request.generation.drop_waiting(request.sequence);
}

Error make_error(ErrorCode code, const char* message, std::int64_t needed, std::int64_t available) noexcept {
  Error error{code, {}, "Batcher", needed, available};
  try {
    error.message = message;
  } catch (...) {  // bad_alloc
  }
  return error;
}

void end_with(BatchRequest& request, Error error) noexcept {
  if (request.beams) {
    request.beams->fail(std::move(error));
    return;
  }
  request.error = std::move(error);
  end_early(request, Finish::cancelled);
}

void BatchEngine::take_incoming() noexcept {
  if (incoming_.empty()) return;
  // A newcomer starts with the share of those that got least, not with a claim to all of the past.
  double least = 0;
  double least_caller = 0;
  bool first = true;
  for (const auto& request : live_) {
    if (!request->view.ready) continue;
    least = first ? request->view.served : std::min(least, request->view.served);
    least_caller = first ? request->caller->served : std::min(least_caller, request->caller->served);
    first = false;
  }
  for (auto& request : incoming_) {
    request->view.arrival = arrivals_++;
    request->view.arrival_step = counts_.steps;
    request->view.served = least;
    if (std::exchange(request->caller->fresh, false)) request->caller->served = least_caller;
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
      request.last_token.reset();  // what follows is its client's time
      break;
    }
    request.generation.pop_front();
    request.first_token_out = came = true;
  }
  if (came) request.changed.notify_all();
}

/// Ends what must end, hands pieces to the queues, and sees who can go on. A beam that ends its search may come after
/// others of it: then once more.
void BatchEngine::sweep(Clock::time_point now) noexcept {
  while (sweep_once(now)) {
  }
}

/// True when a search has ended.
bool BatchEngine::sweep_once(Clock::time_point now) noexcept {
  bool search_ended = false;
  for (std::size_t i = 0; i < live_.size();) {
    BatchRequest& request = *live_[i];
    request.in_step = false;
    if (request.cancelled && !request.error) end_early(request, Finish::cancelled);
    const std::optional<Clock::time_point> until = deadline(request);
    if (until && now >= *until && !request.generation.finished()) end_early(request, Finish::deadline);
    deliver(request);
    if (request.generation.finished() && request.generation.front() == nullptr) {
      search_ended = search_ended || (request.beams && request.counts());
      finish(i);
      continue;
    }
    ++i;
  }
  return search_ended;
}

/// Lets go of a request; its client hears of it in call_ends() or finds out itself.
void BatchEngine::finish(std::size_t index) noexcept {
  BatchRequest& request = *live_[index];
  request.outcome.finish = *request.generation.finished();
  request.outcome.stop_string.assign(request.generation.stop_string());  // within its capacity
  leave_group(request);
  leave_caller(request);
  swap_.drop(request.swapped);
  if (!request.counts()) {
    // part of a request that is counted
  } else if (request.error) {
    ++counts_.failed;
  } else {
    ++(request.outcome.finish == Finish::cancelled ? counts_.cancelled : counts_.completed);
  }
  if (!request.sink && !request.abandoned && request.sequence.pages().any()) {
    parking_.park(request.parked, request.sequence);
  }
  request.ended = true;
  request.changed.notify_all();
  ending_.push_back(std::move(live_[index]));
  if (index + 1 < live_.size()) live_[index] = std::move(live_.back());
  live_.pop_back();
}

namespace {

bool runs(const BatchRequest& request) noexcept {
  if (!request.beams || request.beams->state.over()) return request.view.running;
  const std::vector<BatchRequest*>& beams = request.beams->requests;
  return std::any_of(beams.begin(), beams.end(), [](const BatchRequest* beam) { return beam->view.running; });
}

}  // namespace

void BatchEngine::publish() noexcept {
  counts_.queued = counts_.running = counts_.preempted = 0;
  for (const auto& request : live_) {
    if (!request->counts()) continue;
    ++(runs(*request) ? counts_.running : request->started ? counts_.preempted : counts_.queued);
  }
  const std::uint64_t submitted = stats_.submitted;
  stats_ = counts_;
  stats_.submitted = submitted;
  published_generated_ = generated_;
  published_computed_ = computed_;
}

}  // namespace llminfer::runtime
