// The most probable continuations of a history, instead of drawn ones.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <llminfer/error.hpp>
#include <llminfer/export.hpp>
#include <llminfer/generator.hpp>
#include <llminfer/types.hpp>

namespace llminfer {
inline namespace v0 {

class Session;

/// At each length the `beams` most probable continuations that have not ended go on, from the 1 there is at first;
/// those that end are set aside, and the best of these are the result. No cut but `beams` is made: where it is as large
/// as the number of possible continuations the result is that of an exhaustive search.
struct BeamOptions {
  int beams = 4;                     ///< 1 .. 256; each keeps pages of its own for what it does not share
  int results = 1;                   ///< hypotheses wanted, 1 .. beams
  int max_tokens = 256;              ///< of a hypothesis, 1 or more; the context is the other bound
  double length_penalty = 1;         ///< score = log-probability / new tokens ^ length_penalty, -8 .. 8; 0: no penalty
  std::vector<Token> stop_tokens{};  ///< besides the model's own
  bool ignore_end_of_text = false;   ///< the model's own stop tokens are never chosen
  Deadlines deadlines{};             ///< `whole`: then the histories so far are the hypotheses; `first_token` is unused
  int priority = 0;                  ///< as in GenerateOptions
  double weight = 1;                 ///< of all beams together, as in GenerateOptions
  std::uint64_t caller = 0;          ///< as in GenerateOptions
  std::uint64_t salt = 0;            ///< as in GenerateOptions
};

/// A continuation found.
struct Hypothesis {
  std::vector<Token> tokens{};  ///< the new ones, a stop token included
  std::string text{};           ///< of them but for the stop token: UTF-8
  double logprob = 0;           ///< sum of the tokens' under softmax of the logits
  double score = 0;
  Finish finish = Finish::length;  ///< end_of_text, stop_token, length, context_full or deadline
};

/// A beam search that a Batcher runs. One thread at a time, except for cancel(). Destroying it ends the search.
class LLMINFER_API BeamSearch {
 public:
  BeamSearch(BeamSearch&&) noexcept;
  BeamSearch& operator=(BeamSearch&&) noexcept;
  BeamSearch(const BeamSearch&) = delete;
  BeamSearch& operator=(const BeamSearch&) = delete;
  ~BeamSearch();

  /// Waits for the end: `results` hypotheses or fewer (there may not be more), the best score first. Error cancelled
  /// after cancel() or a stop request; invalid_logits, out_of_pages or what the device reports.
  Result<std::vector<Hypothesis>> wait(std::stop_token stop = {});

  /// (any thread) Ends the search soon.
  void cancel() noexcept;

  /// Cancels what has not ended, waits for the running step, and gives the Session back with the history that it had.
  Result<Session> release() &&;

  class Body;
  /// For the library's own use.
  explicit BeamSearch(std::unique_ptr<Body> body) noexcept;

 private:
  std::unique_ptr<Body> body_;
};

}  // namespace v0
}  // namespace llminfer
