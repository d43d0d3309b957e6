// Several continuations of one history: those that wait for their prompt, and beams.
#include <algorithm>

#include "runtime/batch_engine.h"
#include "runtime/batch_engine_parts.h"

namespace llminfer::runtime {

/// It has pages that are computed: it runs at once where there is a place.
void BatchEngine::join(BatchRequest& request) noexcept {
  if (request.view.running) return;
  const auto running = std::count_if(live_.begin(), live_.end(), [](const auto& other) { return other->view.running; });
  request.view.running = running < limits_.max_sequences;
  request.started = true;
}

/// The leader's prompt is computed: its followers share it, and choose from the same logits.
void BatchEngine::fork_followers(BatchRequest& leader, const ComputedRow& row, Clock::time_point now) noexcept {
  BatchRequest* const first = leader.followers;
  if (first == nullptr) return;
  leader.followers = nullptr;
  {
    const std::lock_guard<std::mutex> lock(pool_->mutex());
    for (BatchRequest* f = first; f != nullptr; f = f->next_follower) {
      f->leader = nullptr;
      f->sequence.evict();
      f->sequence.share(leader.sequence);
      f->charged = f->outcome.reused_tokens = f->sequence.computed();
      counts_.queue_time.add(elapsed(f->start, now));
      join(*f);
    }
  }
  for (BatchRequest* f = first; f != nullptr; f = f->next_follower) choose(*f, row, now);
}

/// A request that ends leaves its group: from its leader's list, or its followers to the first of them.
void BatchEngine::leave_group(BatchRequest& request) noexcept {
  if (request.leader != nullptr) {
    BatchRequest** at = &request.leader->followers;
    while (*at != &request) at = &(*at)->next_follower;
    *at = request.next_follower;
    request.leader = nullptr;
  }
  BatchRequest* const heir = request.followers;
  request.followers = nullptr;
  if (heir == nullptr) return;
  heir->leader = nullptr;
  heir->followers = heir->next_follower;
  for (BatchRequest* f = heir->followers; f != nullptr; f = f->next_follower) f->leader = heir;
}

void BatchEngine::take_beam_row(BatchRequest& request, std::span<const float> logits, Clock::time_point now) noexcept {
  BeamGroup& beams = *request.beams;
  if (beams.state.over()) return;  // ended by another beam of this step
  if (!beams.state.take_row(request.beam, logits)) {
    end_with(request, make_error(ErrorCode::invalid_logits, "a logit is NaN or infinite"));
    return;
  }
  if (!beams.state.complete()) return;
  {
    const std::lock_guard<std::mutex> lock(pool_->mutex());
    beams.advance();
    for (BatchRequest* other : beams.requests) {
      if (!beams.state.stayed(other->beam)) swap_.drop(other->swapped);
    }
  }
  count_token(*beams.requests.front(), now);
  if (beams.state.over()) return;
  counts_.generated_tokens += beams.state.active() - 1;
  generated_.add(now, beams.state.active() - 1);
  for (BatchRequest* other : beams.requests) {
    if (beams.state.wants_row(other->beam)) join(*other);
  }
}

}  // namespace llminfer::runtime
