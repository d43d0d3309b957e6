// The order in which a norm adds its squares: every kernel that makes one gives the same bits. Part w of four has the
// values 32 w + lane + 128 n of a group: n by n, then the lanes of a warp, then the parts.
#pragma once

#include "kernels/numbers.cuh"

namespace llminfer::cuda {

constexpr int norm_parts = 4;

/// What values are multiplied by, from the sums of the parts.
__device__ inline float norm_scale(const float (&parts)[norm_parts], int group, float eps) {
  float sum = 0;
#pragma unroll
  for (const float part : parts) sum += part;
  return 1.0F / sqrtf(sum / static_cast<float>(group) + eps);
}

__device__ inline float normed(float v, float scale, float weight) { return __fmul_rn(__fmul_rn(v, scale), weight); }

}  // namespace llminfer::cuda
