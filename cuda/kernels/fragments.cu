// One block a tile of 8 rows: first what each row is divided by, then its halves. Rows are read twice (three times with
// a norm), the second time from the cache. Limits: columns a multiple of 32. Speed not yet measured.
#include "kernels/fragments.h"

#include "kernels/elementwise.cuh"
#include "kernels/mma.cuh"
#include "kernels/numbers.cuh"

namespace llminfer::cuda {
namespace {

constexpr int warps = 8;
constexpr int threads = 32 * warps;

/// The power of two below the largest value: 1 for rows of zeros and where there is no such number.
__device__ float row_scale(float largest) {
  const unsigned exponent = __float_as_uint(largest) & 0x7f800000U;
  if (exponent == 0x7f800000U || largest == 0) return 1.0F;
  return exponent == 0 ? __uint_as_float(0x00800000U) : __uint_as_float(exponent);
}

/// Values k and k + 1 of a row of activations. `factor`: what the norm multiplies the row by.
template <FragmentSource Source>
__device__ float2 source_pair(const FragmentsParams& p, std::int64_t row, int k, float factor) {
  const std::int64_t at = row * p.columns + k;
  float2 v = *reinterpret_cast<const float2*>(p.in + at);
  if constexpr (Source == FragmentSource::normed) {
    const float2 w = *reinterpret_cast<const float2*>(p.weight + k);
    v = make_float2(v.x * factor * w.x, v.y * factor * w.y);
  }
  if constexpr (Source == FragmentSource::gated) {
    const float2 b = *reinterpret_cast<const float2*>(p.gated.b + at);
    v = make_float2(apply(p.gated, v.x, b.x), apply(p.gated, v.y, b.y));
  }
  return v;
}

template <FragmentSource Source>
__global__ void __launch_bounds__(threads) fragments_kernel(FragmentsParams p) {
  __shared__ float inverse[8], factors[8];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(blockIdx.x) * 8;
  float largest = 0, factor = 1;
  if (first + warp < p.rows) {
    if constexpr (Source == FragmentSource::normed) {
      float squares = 0;
      for (int k = 2 * lane; k < p.columns; k += 64) {
        const float2 v =
            *reinterpret_cast<const float2*>(p.in + static_cast<std::int64_t>(first + warp) * p.columns + k);
        squares += v.x * v.x + v.y * v.y;
      }
      factor = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(p.columns) + p.eps);
    }
    for (int k = 2 * lane; k < p.columns; k += 64) {
      const float2 v = source_pair<Source>(p, first + warp, k, factor);
      largest = fmaxf(largest, fmaxf(fabsf(v.x), fabsf(v.y)));
    }
  }
  const float scale = row_scale(warp_max(largest));
  if (lane == 0) {
    inverse[warp] = 1.0F / scale;
    factors[warp] = factor;
    p.scales[first + warp] = scale;
  }
  __syncthreads();
  const int row = lane / 4, t = lane % 4;
  const bool there = first + row < p.rows;
  const std::int64_t out_at = static_cast<std::int64_t>(blockIdx.x) * p.blocks * 32 + lane;
  uint4* out = reinterpret_cast<uint4*>(p.fragments) + out_at;
  uint4* out_rest = reinterpret_cast<uint4*>(p.rest) + out_at;
  for (int b = warp; b < p.blocks; b += warps) {
    unsigned word[4] = {}, rest[4] = {};
    if (there && 32 * b < p.columns) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float2 v = source_pair<Source>(p, first + row, 32 * b + 8 * n + 2 * t, factors[row]);
        const float2 scaled = make_float2(v.x * inverse[row], v.y * inverse[row]);
        word[n] = pair_of_halves(scaled.x, scaled.y);
        const float2 there_is = floats_of_pair(word[n]);
        rest[n] = pair_of_halves(scaled.x - there_is.x, scaled.y - there_is.y);
      }
    }
    out[b * 32] = make_uint4(word[0], word[1], word[2], word[3]);
    if (p.rest != nullptr) out_rest[b * 32] = make_uint4(rest[0], rest[1], rest[2], rest[3]);
    // Sums of what the product sees: of the rounded values.
    float sum[2];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const float2 v = floats_of_pair(word[2 * n]), w = floats_of_pair(word[2 * n + 1]);
      sum[n] = v.x + v.y + w.x + w.y;
      sum[n] += __shfl_xor_sync(0xffffffffU, sum[n], 1);
      sum[n] += __shfl_xor_sync(0xffffffffU, sum[n], 2);
    }
    if (t == 0) {
      const int tile = static_cast<int>(blockIdx.x);
      p.block_sums[block_sum_at(tile, p.blocks, row, b)] = sum[0] + sum[1];
      *reinterpret_cast<float2*>(p.block_sums + step_sums_at(p.rows, p.blocks) + step_sum_at(tile, p.blocks, row, b)) =
          make_float2(sum[0], sum[1]);
    }
  }
}

}  // namespace

cudaError_t launch(const FragmentsParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.columns % 32 != 0) return cudaErrorInvalidValue;
  const unsigned blocks = blocks_for(p.rows, 8);
  switch (p.source) {
    case FragmentSource::values:
      fragments_kernel<FragmentSource::values><<<blocks, threads, 0, stream>>>(p);
      break;
    case FragmentSource::normed:
      fragments_kernel<FragmentSource::normed><<<blocks, threads, 0, stream>>>(p);
      break;
    case FragmentSource::gated:
      fragments_kernel<FragmentSource::gated><<<blocks, threads, 0, stream>>>(p);
  }
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
