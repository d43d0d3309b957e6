// Pages of those that are pushed out, kept in other memory. Under the pool's mutex.
#include "runtime/batch_engine.h"

namespace llminfer::runtime {

/// Slots of those whose clients do not read would be held for as long as they like. True if the request fits then.
bool BatchEngine::take_idle_slots(const BatchRequest& request) noexcept {
  if (!request.view.ready) return false;
  for (const auto& other : live_) {
    if (other->swapped.computed == 0 || other->generation.front() == nullptr) continue;
    swap_.drop(other->swapped);
    if (swap_.fits(request.sequence)) return true;
  }
  return false;
}

/// In place of evict(), where there is room and it costs less than computing again. Its pages may be of no use to it
/// any more, or be shared with others: what is copied is what would have to be computed.
bool BatchEngine::swap_out(BatchRequest& request) noexcept {
  Sequence& sequence = request.sequence;
  if (request.swapped.computed > 0) return false;
  const std::uint64_t bytes = swap_.bytes(sequence);
  if (!swap_always_ && !swap_cost_.swap_is_cheaper(sequence.computed(), bytes)) return false;
  if (!swap_.fits(sequence) && !(swap_.would_fit(sequence) && take_idle_slots(request))) return false;
  const Clock::time_point start = clock_->now();
  if (!swap_.keep(sequence, request.swapped)) return false;
  swap_cost_.saw_copy(bytes, elapsed(start, clock_->now()));
  ++counts_.swapped_out;
  return true;
}

/// What does not come back is computed again.
void BatchEngine::swap_in(BatchRequest& request) noexcept {
  Shortage::Kind shortage = Shortage::Kind::pages;
  if (request.swapped.computed <= request.sequence.size()) {
    do {
      shortage = swap_.bring_back(request.sequence, request.swapped).kind;
    } while (shortage == Shortage::Kind::pages && parking_.reclaim());
  }
  if (shortage == Shortage::Kind::none) {
    ++counts_.swapped_in;
    request.sequence.forget_last();
  } else {
    swap_.drop(request.swapped);
  }
}

}  // namespace llminfer::runtime
