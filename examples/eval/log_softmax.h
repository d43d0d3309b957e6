// Log-probabilities of a row of logits, in double.
#pragma once

#include <llminfer/types.hpp>
#include <span>
#include <utility>
#include <vector>

namespace examples {

/// A row with its log of the sum of exponentials.
class LogSoftmax {
 public:
  /// `logits` must outlive it. Throws std::runtime_error when one of them is not a number or plus infinity.
  explicit LogSoftmax(std::span<const float> logits);

  double operator[](llminfer::Token token) const { return logits_[static_cast<std::size_t>(token)] - log_sum_; }

  /// The `count` most probable tokens, best first, ties by id.
  std::vector<std::pair<llminfer::Token, double>> top(int count) const;

 private:
  std::span<const float> logits_;
  double log_sum_ = 0;
};

}  // namespace examples
