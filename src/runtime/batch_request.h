// One request of a batch: what its client, the engine's thread and the scheduler know of it.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <llminfer/generator.hpp>
#include <memory>
#include <optional>

#include "runtime/clock.h"
#include "runtime/generation.h"
#include "runtime/parking.h"
#include "runtime/piece_queue.h"
#include "runtime/scheduler.h"
#include "runtime/swap_space.h"

namespace llminfer::runtime {

class BeamGroup;

/// Receives a request's pieces on the engine's thread, instead of a queue.
class BatchSink {
 public:
  virtual ~BatchSink() = default;
  /// False: enough. May throw, which ends this request alone.
  virtual bool on_piece(const Piece& piece) = 0;
  /// The end, exactly once; the sequence is the client's again.
  virtual void on_end(Result<Outcome> result) noexcept = 0;
};

/// What a request is made of.
struct BatchRequestSetup {
  Sequence* sequence = nullptr;         ///< Paging::at_step, of the engine's pool
  std::shared_ptr<void> keeps_alive{};  ///< owner of the sequence
  GenerationSetup generation{};
  std::size_t pieces_ahead = 0;       ///< room of the queue; without a sink
  std::unique_ptr<BatchSink> sink{};  ///< null: pieces wait in the queue
  std::shared_ptr<BeamGroup> beams{};
  std::size_t beam = 0;
  double share = 1;  ///< of its weight, where several requests are one to the caller
};

/// Whose requests they are, with what they got together.
struct BatchCaller {
  double served = 0;     ///< engine: tokens computed so far, over their weights
  bool fresh = true;     ///< engine: nothing of it was taken in yet
  std::size_t live = 0;  ///< guarded: requests that have not ended
};

/// Made by the client, then shared by it and the engine. "engine" members belong to the engine's thread until ended,
/// then to the client; "guarded" ones to the engine's mutex.
class BatchRequest {
 public:
  BatchRequest(const GenerateOptions& options, BatchRequestSetup setup)
      : sequence(*setup.sequence),
        keeps_alive(std::move(setup.keeps_alive)),
        sink(std::move(setup.sink)),
        beams(std::move(setup.beams)),
        beam(setup.beam),
        generation(options, setup.generation),
        queue(sink ? 0 : setup.pieces_ahead + 1, sink ? 0 : Generation::most_text(options, setup.generation),
              static_cast<std::size_t>(sink ? 0 : options.top_logprobs)),
        deadlines(options.deadlines),
        caller_id(options.caller),
        caller_weight(options.weight),
        weight(options.weight * setup.share) {
    view.priority = options.priority;
    outcome.prompt_tokens = sequence.size();
    outcome.reused_tokens = sequence.computed();
    std::size_t longest = 0;
    for (const std::string& stop : options.stop) longest = std::max(longest, stop.size());
    outcome.stop_string.reserve(longest);  // the end allocates nothing
  }
  BatchRequest(const BatchRequest&) = delete;
  BatchRequest& operator=(const BatchRequest&) = delete;
  ~BatchRequest() = default;

  Sequence& sequence;
  std::shared_ptr<void> keeps_alive;  ///< dropped by who gets the sequence at the end
  const std::unique_ptr<BatchSink> sink;
  const std::shared_ptr<BeamGroup> beams;  ///< the search that it is a beam of; it hands out no pieces then
  const std::size_t beam;

  /// Beams besides the first are no requests of a client: they are not counted.
  bool counts() const noexcept { return beam == 0; }

  // engine
  Generation generation;
  ScheduledRequest view;
  std::int32_t charged = 0;        ///< longest history that counted for its share: what is computed again counts once
  SwapSpace::Kept swapped;         ///< its pages, where they are kept instead of being computed again
  BatchRequest* leader = nullptr;  ///< computes the same prompt: this one waits to share it
  BatchRequest* followers = nullptr;            ///< the first of those that wait for this one
  BatchRequest* next_follower = nullptr;        ///< of the same leader
  bool first_token_out = false;                 ///< the deadline of the first token is met
  bool started = false;                         ///< was admitted once
  bool had_token = false;                       ///< one was chosen
  std::optional<Clock::time_point> last_token;  ///< when, unless it paused since

  // guarded
  PieceQueue queue;
  std::condition_variable_any changed;  ///< a piece came, or the end
  Outcome outcome;                      ///< finish and stop_string at the end; new_tokens: handed out
  std::optional<Error> error;           ///< ended with it; the engine's until then
  bool cancelled = false;
  bool ended = false;      ///< the engine has let go
  bool abandoned = false;  ///< no client will take the sequence
  bool blocked = false;    ///< a piece waits for room in the queue
  bool in_step = false;    ///< part of the running step, and not cancelled

  const Deadlines deadlines;
  const std::uint64_t caller_id;
  const double caller_weight;
  const double weight;
  BatchCaller* caller = nullptr;  ///< the engine's, from submission to the end
  Clock::time_point start{};      ///< of its deadlines: when it was submitted; set then
  Parking::Node parked;
};

}  // namespace llminfer::runtime
