// Many generations at once: each step reads the weights once for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <llminfer/batch_stats.hpp>
#include <llminfer/beam_search.hpp>
#include <llminfer/error.hpp>
#include <llminfer/export.hpp>
#include <llminfer/generator.hpp>
#include <llminfer/model.hpp>
#include <llminfer/profile.hpp>
#include <llminfer/session.hpp>

namespace llminfer {
inline namespace v0 {

struct BatcherOptions {
  std::size_t kv_bytes = 0;  ///< memory for cached keys and values, taken at start
  int max_sequences = 32;    ///< most sequences of a step, at most LoadOptions::max_sequences
  int step_tokens = 512;     ///< most tokens of a step, at most LoadOptions::max_step_tokens. Fewer: long prompts delay
                             ///< the others' tokens less
  int queue = 1024;          ///< most requests that wait for their first step; 1 .. 1,000,000
  bool prefix_cache = true;  ///< requests share what they have in common at the beginning of their histories, if it is
                             ///< still in memory; see GenerateOptions::salt
  std::size_t swap_bytes = 0;  ///< memory for pages of sequences that lose theirs to others, taken at start: they are
                               ///< copied there and back where that costs less than computing them again
  int pieces_ahead = 256;      ///< most pieces of a request that wait for its client, 1 .. 65,536; then it alone pauses
  Profile profile{};           ///< records the batcher's work; empty: none
  double kv_share = 0;  ///< instead of kv_bytes: this share of DeviceInfo::free_memory at the start, above 0 to 1. With
                        ///< neither: Error invalid_argument
};

/// Names a request that was submitted with callbacks. Copies name the same one. (any thread)
class LLMINFER_API Ticket {
 public:
  /// Ends the request as cancelled soon, its prefill included. Nothing happens after its end.
  void cancel() noexcept;

  class Body;
  /// For the library's own use.
  explicit Ticket(std::shared_ptr<Body> body) noexcept;

 private:
  std::shared_ptr<Body> body_;
};

/// Runs requests together on a thread of its own: sequences join and leave at every step, long prompts are computed in
/// chunks beside the others' tokens, and when pages run out the lowest-ranked sequence loses its own and is computed
/// again later. A request's tokens are the same as alone. (any thread)
///
/// Pages belong to the requests while they are computed. A Session that is back with the application keeps its pages
/// until it is destroyed, rewound or submitted again; a request that does not fit beside such Sessions ends with Error
/// out_of_pages once it could run alone.
class LLMINFER_API Batcher {
 public:
  /// Takes all memory and starts the thread. Errors: invalid_argument naming the option, out_of_memory.
  static Result<Batcher> start(const Model& model, BatcherOptions options);

  Batcher(Batcher&&) noexcept;
  Batcher& operator=(Batcher&&) noexcept;
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;
  /// Ends all requests as cancelled, calls their on_end, and joins the thread. Generators stay valid: they are at their
  /// end.
  ~Batcher();

  /// A Session in the Batcher's memory. Appending takes no pages (they come when it is computed), so any number may
  /// wait. `kv_bytes` must be 0.
  Result<Session> open_session(SessionOptions options = {});

  /// Continues the session's history; `session` is moved from only on success. One of another pool, of the same model,
  /// is opened anew in the Batcher's and computed again. Errors: queue_full, invalid_argument naming the field (an
  /// empty history, a Session in use), mismatch (another model), out_of_pages (more than the whole pool).
  /// The Generator waits in next(); release() gives the Session back.
  Result<Generator> submit(Session&& session, GenerateOptions options = {});

  /// `count` continuations of one history, 1 .. 1,024, taken in together or not at all. The history is computed once;
  /// they share its pages, and part where they write. The i-th draws with SamplingOptions::sequence + i: its tokens are
  /// those of a request alone with that. Each counts as a request, and may be dropped by itself. Errors: as submit.
  Result<std::vector<Generator>> submit_many(Session&& session, int count, GenerateOptions options = {});

  /// Searches the most probable continuations. Errors: as submit.
  Result<BeamSearch> submit_beams(Session&& session, BeamOptions options = {});

  /// As submit, with callbacks on the Batcher's thread, which waits for them. `on_piece`: false ends the request as
  /// cancelled, the history kept; what it throws ends it with Error callback_failed. `on_end`, called once, gets the
  /// Session back; it may be empty, and what it throws is dropped. Callbacks may submit and cancel.
  Result<Ticket> submit(Session&& session, GenerateOptions options, std::function<bool(const Piece&)> on_piece,
                        std::function<void(Result<Outcome>, Session)> on_end);

  /// As submit_many, with callbacks that get the number of the continuation too.
  Result<std::vector<Ticket>> submit_many(Session&& session, int count, GenerateOptions options,
                                          std::function<bool(int, const Piece&)> on_piece,
                                          std::function<void(int, Result<Outcome>, Session)> on_end);

  /// Does not wait for a step.
  BatchStats stats() const;

  class Body;
  /// For the library's own use.
  explicit Batcher(std::shared_ptr<Body> body) noexcept;

 private:
  std::shared_ptr<Body> body_;
};

}  // namespace v0
}  // namespace llminfer
