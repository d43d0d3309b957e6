#include "log_softmax.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace examples {

LogSoftmax::LogSoftmax(std::span<const float> logits) : logits_(logits) {
  const double largest = logits.empty() ? 0 : *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  log_sum_ = largest + std::log(sum);
  if (!std::isfinite(log_sum_)) throw std::runtime_error("the model's logits are not finite");
}

std::vector<std::pair<llminfer::Token, double>> LogSoftmax::top(int count) const {
  const auto size = std::min(static_cast<std::size_t>(count), logits_.size());
  std::vector<llminfer::Token> best;  // descending
  const auto better = [this](llminfer::Token a, llminfer::Token b) {
    return logits_[static_cast<std::size_t>(a)] > logits_[static_cast<std::size_t>(b)];
  };
  for (llminfer::Token id = 0; id < static_cast<llminfer::Token>(logits_.size()); ++id) {
    if (best.size() == size && (size == 0 || !better(id, best.back()))) continue;
    if (best.size() == size) best.pop_back();
    best.insert(std::upper_bound(best.begin(), best.end(), id, better), id);
  }
  std::vector<std::pair<llminfer::Token, double>> result;
  for (const llminfer::Token id : best) result.emplace_back(id, (*this)[id]);
  return result;
}

}  // namespace examples
