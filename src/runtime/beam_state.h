// Beam search over rows of logits: which histories go on, which are complete. Knows tokens and numbers, no pages.
//
//   for each beam that wants_row(): take_row(); when complete(): moves = advance(), carried out by the caller.
//
// A history of t new tokens has the log-probability L = sum log softmax(logits)[token]; a hypothesis (one that ends)
// has the score L / t^length_penalty. At each length the best `beams` histories that do not end go on; those that end
// are hypotheses, of which the best `results` are kept. The search ends when no history that goes on can score better
// than the worst of them, or at the longest length.
#pragma once

#include <cstdint>
#include <llminfer/generator.hpp>
#include <memory>
#include <span>
#include <vector>

#include "core/vector.h"

namespace llminfer::runtime {

struct BeamSetup {
  std::size_t beams = 1;
  std::size_t results = 1;
  std::size_t max_tokens = 1;       ///< 0: over before it begins
  Finish longest = Finish::length;  ///< of hypotheses of max_tokens tokens
  double length_penalty = 1;
  std::int32_t vocabulary = 0;
  std::vector<Token> end_of_text{};  ///< end a hypothesis, with Finish::end_of_text
  std::vector<Token> stop_tokens{};  ///< the same with Finish::stop_token
  std::vector<Token> banned{};       ///< never chosen
  std::shared_ptr<core::Memory> memory{};
};

/// A complete history, its tokens after the prompt.
struct BeamHypothesis {
  explicit BeamHypothesis(const std::shared_ptr<core::Memory>& memory) : tokens(memory) {}
  core::Vector<Token> tokens;
  double logprob = 0;
  double score = 0;
  Finish finish = Finish::length;
};

/// One thread at a time. Allocates nothing after construction.
class BeamState {
 public:
  explicit BeamState(const BeamSetup& setup);

  /// One of the beams that go on, and its logits are not there yet. At first that is beam 0 alone.
  bool wants_row(std::size_t beam) const noexcept { return beams_[beam].active && !beams_[beam].row && !over_; }
  /// False: there is a NaN or +inf in the row.
  bool take_row(std::size_t beam, std::span<const float> logits) noexcept;
  /// All rows are there.
  bool complete() const noexcept { return !over_ && rows_ == active_; }

  /// What becomes of a beam: the history of `parent` and `token`. A beam that is a parent is one of its own children.
  struct Move {
    std::size_t parent = 0;
    Token token = 0;
    bool active = false;  ///< false: nothing, until it is needed again
  };
  /// One length further; one move a beam, valid until the next call. None go on when the search is over().
  std::span<const Move> advance() noexcept;

  /// At the last advance() the beam's history only grew.
  bool stayed(std::size_t beam) const noexcept { return moves_[beam].active && moves_[beam].parent == beam; }

  /// Ends now: the histories so far are hypotheses too.
  void end(Finish finish) noexcept;
  bool over() const noexcept { return over_; }
  std::size_t active() const noexcept { return active_; }
  std::size_t length() const noexcept { return length_; }

  /// Best first.
  std::span<const BeamHypothesis> hypotheses() const noexcept { return {found_.data(), found_count_}; }

 private:
  struct Beam {
    bool active = false;
    bool row = false;
    double logprob = 0;
    std::size_t candidates = 0;
  };
  struct Candidate {
    double logprob = 0;
    Token token = 0;
    std::int32_t beam = 0;
  };
  bool ends(Token token, Finish& finish) const noexcept;
  double score(double logprob, std::size_t length) const noexcept;
  double best_to_come(double logprob) const noexcept;
  void gather() noexcept;
  void choose() noexcept;
  void place() noexcept;
  void add(std::span<const Token> path, const Token* last, double logprob, Finish finish) noexcept;
  std::span<const Token> path(std::size_t beam, std::size_t tokens) const noexcept;

  std::size_t results_;
  std::size_t max_tokens_;
  Finish longest_;
  double length_penalty_;
  std::size_t vocabulary_;
  std::size_t width_;  // candidates kept of a row: enough for all beams after those that end
  std::vector<Token> end_of_text_, stop_tokens_, banned_;  // sorted

  std::vector<Beam> beams_;
  std::vector<Move> moves_;
  std::vector<std::size_t> chosen_;    // indices into merged_
  core::Vector<Candidate> rows_kept_;  // [beams x width]
  core::Vector<Candidate> merged_;
  core::Vector<Token> paths_, next_paths_;  // [beams x max_tokens]
  std::vector<BeamHypothesis> found_;       // results_ + 1, the first found_count_ in use
  std::size_t found_count_ = 0;
  std::size_t active_ = 1;
  std::size_t rows_ = 0;
  std::size_t length_ = 0;
  bool over_ = false;
};

}  // namespace llminfer::runtime
