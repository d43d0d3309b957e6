// Shannon entropy of the candidates, in nats.
#pragma once

#include "runtime/sampling/candidates.h"

namespace llminfer::runtime {

/// -sum of p ln p over list(). Overwrites the candidates' scores with p.
inline double entropy(Candidates& candidates) noexcept {
  const double normalizer = candidates.log_sum_exp();
  const auto p = candidates.probabilities();
  const auto list = candidates.list();
  double sum = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (p[i] > 0) sum += p[i] * (normalizer - static_cast<double>(list[i].logit) * candidates.scale());
  }
  return sum;
}

}  // namespace llminfer::runtime
