#include "runtime/beam_group.h"

namespace llminfer::runtime {

void BeamGroup::end(Finish finish) noexcept {
  state.end(finish);
  for (BatchRequest* request : requests) request->generation.end(finish);
}

void BeamGroup::fail(Error error) noexcept {
  requests.front()->error = std::move(error);
  end(Finish::cancelled);
}

void BeamGroup::advance() noexcept {
  const std::span<const BeamState::Move> moves = state.advance();
  if (state.over()) {
    const std::span<const BeamHypothesis> found = state.hypotheses();
    end(found.empty() ? Finish::length : found.front().finish);
    return;
  }
  const std::int32_t prompt = requests.front()->outcome.prompt_tokens;
  for (std::size_t b = 0; b < moves.size(); ++b) {
    Sequence& sequence = requests[b]->sequence;
    if (moves[b].active && moves[b].parent == b) continue;
    sequence.evict();
    if (moves[b].active) {
      sequence.share(requests[moves[b].parent]->sequence);
    } else {
      sequence.rewind(prompt);
      requests[b]->view.running = false;
    }
  }
  for (std::size_t b = 0; b < moves.size(); ++b) {
    if (!moves[b].active) continue;
    BatchRequest& request = *requests[b];
    request.charged = request.sequence.computed();
    static_cast<void>(request.sequence.append({&moves[b].token, 1}));  // within the context: the state counts
  }
}

}  // namespace llminfer::runtime
