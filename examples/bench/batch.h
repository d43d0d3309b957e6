// Speed of several sequences at once.
#pragma once

#include <llminfer/batcher.hpp>
#include <llminfer/model.hpp>
#include <llminfer/profile.hpp>
#include <llminfer/session.hpp>
#include <stop_token>
#include <vector>

namespace examples {

constexpr int batch_prompt = 128;   // tokens of each sequence's prompt
constexpr int batch_generate = 64;  // new tokens of each sequence

struct BatchRun {
  int sequences = 1;
  int prompt = batch_prompt;
  int generate = batch_generate;
};

/// Sequences whose prompts are computed, ready to generate together, again and again.
class BatchBench {
 public:
  /// The model must be loaded for as many sequences. `profile`: records what is timed.
  BatchBench(const llminfer::Model& model, const BatchRun& run, const std::stop_token& stop,
             const llminfer::Profile& profile = {});
  /// Tokens per second of all sequences together while each gets its greedy tokens; then they are as before.
  double speed(const std::stop_token& stop);

 private:
  BatchRun run_;
  llminfer::Batcher batcher_;
  std::vector<llminfer::Session> sessions_{};
};

/// Tokens per second of all sequences together, `rounds` times: the prompts, computed once before the clock starts,
/// then greedy tokens of each. The model must be loaded for as many sequences. `profile`: records what is timed.
std::vector<double> batch_speeds(const llminfer::Model& model, const BatchRun& run, int rounds,
                                 const std::stop_token& stop, llminfer::Profile profile = {});

}  // namespace examples
