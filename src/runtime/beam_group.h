// A beam search among the requests of a batch: one request a beam, the first of them the client's.
#pragma once

#include <memory>
#include <vector>

#include "runtime/batch_request.h"
#include "runtime/beam_state.h"

namespace llminfer::runtime {

/// Made by the client, then the engine's until the first request has ended, then the client's. All requests end
/// together.
class BeamGroup {
 public:
  explicit BeamGroup(const BeamSetup& setup) : state(setup) { requests.reserve(setup.beams); }

  /// Ends every request; what was found so far stays.
  void end(Finish finish) noexcept;
  void fail(Error error) noexcept;

  /// (pool's mutex) When all rows are there: gives the sequences their next tokens. Beams that go on share the pages of
  /// their parents, the others give theirs back.
  void advance() noexcept;

  BeamState state;
  std::vector<BatchRequest*> requests;  ///< in the order of the beams; valid until they have ended
};

}  // namespace llminfer::runtime
