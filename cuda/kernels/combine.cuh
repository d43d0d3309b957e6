// One value of what the experts of a token give.
#pragma once

#include "kernels/experts.h"

namespace llminfer::cuda {

__device__ inline void combine_value(const CombineParams& p, int row, int i) {
  const float* weights = p.route + static_cast<std::int64_t>(row) * 2 * p.used + p.used;
  const std::int64_t at = static_cast<std::int64_t>(row) * p.width + i;
  const float* in = p.in + static_cast<std::int64_t>(row) * p.used * p.width + i;
  float sum = 0;
#pragma unroll 4
  for (int s = 0; s < p.used; ++s) sum = fmaf(weights[s], __ldcg(in + static_cast<std::int64_t>(s) * p.width), sum);
  p.out[at] = p.residual != nullptr ? __fadd_rn(sum, p.residual[at]) : sum;
}

}  // namespace llminfer::cuda
