// A block of 8 warps makes 16 rows of output for up to 32 rows of activations. Its warps take every eighth chunk of
// columns; their sums meet in shared memory and are added in the order of the warps, so that results are the same bits
// every time. Weights pass once, 16 bytes a lane; nothing of them goes through shared memory.
//
// Limits: columns a multiple of 32. Speed not yet measured.
#include "kernels/matmul_quant.h"

#include "kernels/elementwise.cuh"
#include "kernels/matmul_parts.cuh"
#include "kernels/matmul_super.h"
#include "kernels/numbers.cuh"

namespace llminfer::cuda {
namespace {

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
  uint4* out = reinterpret_cast<uint4*>(p.fragments) + static_cast<std::int64_t>(blockIdx.x) * p.blocks * 32 + lane;
  for (int b = warp; b < p.blocks; b += warps) {
    unsigned word[4] = {};
    if (there && 32 * b < p.columns) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float2 v = source_pair<Source>(p, first + row, 32 * b + 8 * n + 2 * t, factors[row]);
        word[n] = pair_of_halves(v.x * inverse[row], v.y * inverse[row]);
      }
    }
    out[b * 32] = make_uint4(word[0], word[1], word[2], word[3]);
    // Sums of what the product sees: of the rounded values.
    float sum = 0;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float2 v = floats_of_pair(word[n]);
      sum += v.x + v.y;
    }
    sum += __shfl_xor_sync(0xffffffffU, sum, 1);
    sum += __shfl_xor_sync(0xffffffffU, sum, 2);
    if (t == 0) p.block_sums[block_sum_at(static_cast<int>(blockIdx.x), p.blocks, row, b)] = sum;
  }
}

/// Scales of rows g and g + 8, and of all blocks of a chunk in one load; `at`: the number of the chunk times 8 plus g.
template <int Blocks>
struct Halves {
  static constexpr bool has_minimum = false;
  unsigned pairs[Blocks];
  __device__ void load(const std::uint8_t* scales, std::int64_t at) {
    if constexpr (Blocks == 2) {
      const uint2 both = __ldcs(reinterpret_cast<const uint2*>(scales) + at);
      pairs[0] = both.x;
      pairs[1] = both.y;
    } else {
      pairs[0] = __ldcs(reinterpret_cast<const unsigned*>(scales) + at);
    }
  }
  __device__ float2 scale(int n) const { return floats_of_pair(pairs[n]); }
};
struct HalvesWithMinimum {
  static constexpr bool has_minimum = true;
  uint4 pairs;
  __device__ void load(const std::uint8_t* scales, std::int64_t at) {
    pairs = __ldcs(reinterpret_cast<const uint4*>(scales) + at);
  }
  __device__ float2 scale(int n) const { return floats_of_pair(n == 0 ? pairs.x : pairs.z); }
  __device__ float2 minimum(int n) const { return floats_of_pair(n == 0 ? pairs.y : pairs.w); }
};
struct Exponents {
  static constexpr bool has_minimum = false;
  unsigned bytes;
  __device__ static float power(unsigned e) { return __uint_as_float(e < 2 ? 0x00200000U << e : (e - 1) << 23); }
  __device__ void load(const std::uint8_t* scales, std::int64_t at) {
    bytes = __ldcs(reinterpret_cast<const unsigned*>(scales) + at);
  }
  __device__ float2 scale(int n) const {
    return make_float2(power(bytes >> (16 * n) & 255U), power(bytes >> (16 * n + 8) & 255U));
  }
};

template <class LevelsType, class ScalesType>
struct Format {
  using Levels = LevelsType;
  using Scales = ScalesType;
};

template <class Format, int Tiles>
__global__ void __launch_bounds__(threads) matmul_quant_kernel(MatMulQuantParams p) {
  using Levels = typename Format::Levels;
  using Scales = typename Format::Scales;
  __shared__ Room<Tiles> room;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4;
  const BlockTarget target = target_of(p);
  const std::int64_t row_tile = target.row_tile;
  const int first_tile = static_cast<int>(blockIdx.y) * Tiles, all_tiles = (p.rows + 7) / 8;
  const uint4* levels = reinterpret_cast<const uint4*>(target.weight.levels) + row_tile * p.chunks * 32 + lane;
  const unsigned* high = reinterpret_cast<const unsigned*>(target.weight.high) + row_tile * p.chunks * 32 + lane;
  const std::int64_t scale_at = row_tile * p.chunks * 8 + g;
  const uint4* in =
      reinterpret_cast<const uint4*>(p.fragments) + static_cast<std::int64_t>(first_tile) * p.in_blocks * 32 + lane;
  float sum[Tiles][4] = {};
  for (int c = warp; c < p.chunks; c += warps) {
    Held held;
    held.levels = __ldcs(levels + c * 32);
    held.high = 0;
    if constexpr (Levels::has_high) held.high = __ldcs(high + c * 32);
    Scales scales;
    scales.load(target.weight.scales, scale_at + c * 8);
    float2 x_sums[Tiles][2];
#pragma unroll
    for (int n = 0; n < Levels::chunk / 32; ++n) {
      const int b = c * (Levels::chunk / 32) + n;
      const float2 d = scales.scale(n);
      unsigned low[4], upper[4];
      Levels::unpack(held, 2 * n, low);
      Levels::unpack(held, 2 * n + 1, upper);
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
        if (first_tile + tile < all_tiles) {
          // Rows behind the last one are not read: with one row that is seven eighths of the requests.
          uint4 x = make_uint4(0, 0, 0, 0);
          if ((first_tile + tile) * 8 + g < p.rows) {
            x = __ldg(in + (static_cast<std::int64_t>(tile) * p.in_blocks + b) * 32);
          }
          float product[4] = {};
          multiply_add(product, low, x.x, x.y);
          multiply_add(product, upper, x.z, x.w);
          sum[tile][0] += d.x * product[0];
          sum[tile][1] += d.x * product[1];
          sum[tile][2] += d.y * product[2];
          sum[tile][3] += d.y * product[3];
          if constexpr (Scales::has_minimum) {
            // The minimum counts once for each activation of the block: their sums stand beside the fragments.
            if (n == 0) {
              x_sums[tile][0] = block_sums<float2>(p, first_tile + tile, 2 * t, b);
              x_sums[tile][1] = block_sums<float2>(p, first_tile + tile, 2 * t + 1, b);
            }
            const float2 m = scales.minimum(n);
            const float even = n == 0 ? x_sums[tile][0].x : x_sums[tile][0].y;
            const float odd = n == 0 ? x_sums[tile][1].x : x_sums[tile][1].y;
            sum[tile][0] += m.x * even;
            sum[tile][1] += m.x * odd;
            sum[tile][2] += m.y * even;
            sum[tile][3] += m.y * odd;
          }
        }
      }
    }
  }
  store_tiles<Tiles>(p, target, sum, room, first_tile);
}

template <class Format>
void launch_for(const MatMulQuantParams& p, cudaStream_t stream) {
  const int tiles = (p.rows + 7) / 8;
  const unsigned row_tiles = row_tiles_of(p);
  if (tiles == 1) {
    matmul_quant_kernel<Format, 1><<<dim3(row_tiles), threads, 0, stream>>>(p);
  } else if (tiles == 2) {
    matmul_quant_kernel<Format, 2><<<dim3(row_tiles), threads, 0, stream>>>(p);
  } else {
    matmul_quant_kernel<Format, 4><<<dim3(row_tiles, blocks_for(tiles, 4)), threads, 0, stream>>>(p);
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

cudaError_t launch(const MatMulQuantParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.in_blocks < p.blocks || p.count < 1 || p.count > matmul_max_targets) return cudaErrorInvalidValue;
  if (has_super_blocks(p.type)) return launch_matmul_super(p, stream);
  switch (p.type) {
    case WeightType::q4_0:
      launch_for<Format<Plain<8, false>, Halves<2>>>(p, stream);
      break;
    case WeightType::q4_1:
      launch_for<Format<Plain<0, false>, HalvesWithMinimum>>(p, stream);
      break;
    case WeightType::q5_0:
      launch_for<Format<Plain<16, true>, Halves<2>>>(p, stream);
      break;
    case WeightType::q5_1:
      launch_for<Format<Plain<0, true>, HalvesWithMinimum>>(p, stream);
      break;
    case WeightType::q8_0:
      launch_for<Format<Bytes, Halves<1>>>(p, stream);
      break;
    case WeightType::iq4_nl:
      launch_for<Format<Iq4Levels, Halves<2>>>(p, stream);
      break;
    case WeightType::mxfp4:
      launch_for<Format<Mxfp4Levels, Exponents>>(p, stream);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
