// A norm and the addition behind it, by one block for up to eight rows: of a launch of their own, or the last block of
// the launch that made the values.
#pragma once

#include "kernels/norm_order.cuh"
#include "kernels/norms.h"

namespace llminfer::cuda {

struct NormAddRoom {
  float squares[8][norm_parts];
};

/// By all threads of a block of `Warps` warps, which have what it stores in common at the end. `room`: nobody uses it
/// any more, nor afterwards.
template <int Warps>
__device__ void norm_and_add(const NormAddParams& p, int first, int rows, NormAddRoom& room) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int unit = warp; unit < rows * norm_parts; unit += Warps) {
    const int row = unit / norm_parts, part = unit % norm_parts;
    const float* in = p.in + static_cast<std::int64_t>(first + row) * p.columns;
    float squares = 0;
#pragma unroll 8
    for (int k = 32 * part + lane; k < p.columns; k += 32 * norm_parts) {
      const float v = __ldcg(in + k);
      squares = fmaf(v, v, squares);
    }
    squares = warp_sum(squares);
    if (lane == 0) room.squares[row][part] = squares;
  }
  __syncthreads();
#pragma unroll 1
  for (int row = 0; row < rows; ++row) {
    const float scale = norm_scale(room.squares[row], p.columns, p.eps);
    const std::int64_t at = static_cast<std::int64_t>(first + row) * p.columns;
#pragma unroll 2
    for (int k = 4 * static_cast<int>(threadIdx.x); k < p.columns; k += 128 * Warps) {
      const float4 v = __ldcg(reinterpret_cast<const float4*>(p.in + at + k));
      const float4 x = *reinterpret_cast<const float4*>(p.residual + at + k);
      const float4 w = __ldg(reinterpret_cast<const float4*>(p.weight + k));
      *reinterpret_cast<float4*>(p.out + at + k) =
          make_float4(__fadd_rn(x.x, normed(v.x, scale, w.x)), __fadd_rn(x.y, normed(v.y, scale, w.y)),
                      __fadd_rn(x.z, normed(v.z, scale, w.z)), __fadd_rn(x.w, normed(v.w, scale, w.w)));
    }
  }
  __syncthreads();
}

}  // namespace llminfer::cuda
