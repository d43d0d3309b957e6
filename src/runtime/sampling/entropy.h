// Shannon entropy of the candidates.
#pragma once

#include "runtime/sampling/candidates.h"

namespace llminfer::runtime {

struct Entropy {
  double normalizer = minus_infinity;  ///< ln sum e^x
  double nats = 0;                     ///< -sum p ln p
};

/// Over list(), in one pass of exponentials: H = ln sum e^x - sum p x.
inline Entropy entropy(Candidates& candidates) noexcept {
  const auto list = candidates.list();
  const double highest = candidates.max();
  if (list.empty()) return {};
  double sum = 0;
  double weighted = 0;  // of x - highest, so that no large terms cancel
  for (const Candidate& c : list) {
    const double below = static_cast<double>(c.logit) * candidates.scale() - highest;
    const double e = exp64(below);
    sum += e;
    if (e > 0) weighted += e * below;
  }
  const double log_sum = log64(sum);
  return {highest + log_sum, log_sum - weighted / sum};
}

}  // namespace llminfer::runtime
