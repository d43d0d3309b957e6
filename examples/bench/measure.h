// The runs of llminfer-bench. Each is a separate one on a session of its own, timed by wall clock.
#pragma once

#include <llminfer/model.hpp>
#include <llminfer/session.hpp>
#include <stop_token>
#include <vector>

namespace examples {

/// `count` tokens, the same for the same `seed`, none of them a control token. Speed does not depend on which, except
/// for mixtures of experts.
std::vector<llminfer::Token> some_tokens(const llminfer::Tokenizer& tokenizer, int count, unsigned seed);

/// Tokens per second of reading a prompt into an empty session.
double prefill_speed(const llminfer::Model& model, int prompt, const std::stop_token& stop);

/// Reads the same prompt into the same session again and again: memory is there, as in a server that has run for a
/// while.
class PromptBench {
 public:
  PromptBench(const llminfer::Model& model, int prompt);
  /// Tokens per second.
  double speed(const std::stop_token& stop);

 private:
  std::vector<llminfer::Token> tokens_;
  llminfer::Session session_;
};

/// Tokens per second of `generate` greedy steps of one token, after `depth` tokens that are not timed.
double decode_speed(const llminfer::Model& model, int depth, int generate, const std::stop_token& stop);

/// Seconds from now to the first new token of a prompt of 20 tokens.
double first_token_time(const llminfer::Model& model, const std::stop_token& stop);

/// 0 for an empty list.
double median(std::vector<double> values);

}  // namespace examples
