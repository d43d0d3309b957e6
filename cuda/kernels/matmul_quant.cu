// A block of 8 warps makes 16 rows of output for up to 32 rows of activations. Its warps take every eighth chunk of
// columns; their sums meet in shared memory and are added in the order of the warps, so that results are the same bits
// every time. Weights pass once, 16 bytes a lane; nothing of them goes through shared memory.
//
// Limits: columns a multiple of 32. Speed not yet measured.
#include "kernels/matmul_quant.h"

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

__global__ void __launch_bounds__(threads) fragments_kernel(FragmentsParams p) {
  __shared__ float inverse[8];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(blockIdx.x) * 8;
  float largest = 0;
  if (first + warp < p.rows) {
    const float* in = p.in + static_cast<std::int64_t>(first + warp) * p.columns;
    for (int k = lane; k < p.columns; k += 32) largest = fmaxf(largest, fabsf(in[k]));
  }
  const float scale = row_scale(warp_max(largest));
  if (lane == 0) {
    inverse[warp] = 1.0F / scale;
    p.scales[first + warp] = scale;
  }
  __syncthreads();
  const int row = lane / 4, t = lane % 4;
  const bool there = first + row < p.rows;
  const float* in = p.in + static_cast<std::int64_t>(first + row) * p.columns;
  uint4* out = reinterpret_cast<uint4*>(p.fragments) + static_cast<std::int64_t>(blockIdx.x) * p.blocks * 32 + lane;
  for (int b = warp; b < p.blocks; b += warps) {
    unsigned word[4] = {};
    if (there && 32 * b < p.columns) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float2 v = *reinterpret_cast<const float2*>(in + 32 * b + 8 * n + 2 * t);
        word[n] = pair_of_halves(v.x * inverse[row], v.y * inverse[row]);
      }
    }
    out[b * 32] = make_uint4(word[0], word[1], word[2], word[3]);
  }
}

struct Levels4 {
  static constexpr int chunk = 64;
  /// Registers of A for step s of the chunk.
  __device__ static void unpack(const uint4& w, int s, unsigned (&a)[4]) {
    const unsigned word = s == 0 ? w.x : s == 1 ? w.y : s == 2 ? w.z : w.w;
    // 0x6400 | n is the half 1024 + n, and with n four bits higher 1024 + 16 n.
    a[0] = sub_halves(mask_or(word, 0x000f000fU, 0x64006400U), 0x64086408U);                    // - 1032
    a[1] = fma_halves(mask_or(word, 0x00f000f0U, 0x64006400U), 0x2c002c00U, 0xd480d480U);       // / 16 - 72
    a[2] = sub_halves(mask_or(word >> 8, 0x000f000fU, 0x64006400U), 0x64086408U);
    a[3] = fma_halves(mask_or(word >> 8, 0x00f000f0U, 0x64006400U), 0x2c002c00U, 0xd480d480U);
  }
};

struct Levels8 {
  static constexpr int chunk = 32;
  __device__ static void unpack(const uint4& w, int s, unsigned (&a)[4]) {
    const unsigned low = s == 0 ? w.x : w.z, high = s == 0 ? w.y : w.w;
    // A byte below 0x64 is the half 1024 + byte; bytes are levels + 128.
    a[0] = sub_halves(__byte_perm(low, 0x64646464U, 0x4140), 0x64806480U);  // - 1152
    a[1] = sub_halves(__byte_perm(low, 0x64646464U, 0x4342), 0x64806480U);
    a[2] = sub_halves(__byte_perm(high, 0x64646464U, 0x4140), 0x64806480U);
    a[3] = sub_halves(__byte_perm(high, 0x64646464U, 0x4342), 0x64806480U);
  }
};

template <class Levels, int Tiles>
__global__ void __launch_bounds__(threads) matmul_quant_kernel(MatMulQuantParams p) {
  constexpr int columns = 8 * Tiles;
  __shared__ float room[warps][16][columns + 1];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4;
  const std::int64_t row_tile = blockIdx.x;
  const int first_tile = static_cast<int>(blockIdx.y) * Tiles, all_tiles = (p.rows + 7) / 8;
  const uint4* levels = reinterpret_cast<const uint4*>(p.levels) + row_tile * p.chunks * 32 + lane;
  const half2* scales = reinterpret_cast<const half2*>(p.scales) + row_tile * p.blocks * 8 + g;
  const uint4* in = reinterpret_cast<const uint4*>(p.fragments) + static_cast<std::int64_t>(first_tile) * p.in_blocks * 32 + lane;
  float sum[Tiles][4] = {};
  for (int c = warp; c < p.chunks; c += warps) {
    const uint4 w = __ldcs(levels + c * 32);
#pragma unroll
    for (int n = 0; n < Levels::chunk / 32; ++n) {
      const int b = c * (Levels::chunk / 32) + n;
      const float2 d = __half22float2(__ldcs(scales + b * 8));
      unsigned low[4], high[4];
      Levels::unpack(w, 2 * n, low);
      Levels::unpack(w, 2 * n + 1, high);
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
        if (first_tile + tile < all_tiles) {
          const uint4 x = __ldg(in + (static_cast<std::int64_t>(tile) * p.in_blocks + b) * 32);
          float product[4] = {};
          multiply_add(product, low, x.x, x.y);
          multiply_add(product, high, x.z, x.w);
          sum[tile][0] += d.x * product[0];
          sum[tile][1] += d.x * product[1];
          sum[tile][2] += d.y * product[2];
          sum[tile][3] += d.y * product[3];
        }
      }
    }
  }
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
#pragma unroll
    for (int e = 0; e < 4; ++e) room[warp][g + e / 2 * 8][8 * tile + 2 * t + e % 2] = sum[tile][e];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 16 * columns; i += threads) {
    const int j = static_cast<int>(row_tile) * 16 + i % 16, row = first_tile * 8 + i / 16;
    if (j >= p.columns_out || row >= p.rows) continue;
    float v = 0;
    for (int w = 0; w < warps; ++w) v += room[w][i % 16][i / 16];
    v *= p.row_scales[row];
    p.out[static_cast<std::int64_t>(row) * p.columns_out + j] = p.bias != nullptr ? v + p.bias[j] : v;
  }
}

template <class Levels>
void launch_for(const MatMulQuantParams& p, cudaStream_t stream) {
  const int tiles = (p.rows + 7) / 8;
  const unsigned row_tiles = blocks_for(p.columns_out, 16);
  if (tiles == 1) {
    matmul_quant_kernel<Levels, 1><<<dim3(row_tiles), threads, 0, stream>>>(p);
  } else if (tiles == 2) {
    matmul_quant_kernel<Levels, 2><<<dim3(row_tiles), threads, 0, stream>>>(p);
  } else {
    matmul_quant_kernel<Levels, 4><<<dim3(row_tiles, blocks_for(tiles, 4)), threads, 0, stream>>>(p);
  }
}

}  // namespace

cudaError_t launch(const FragmentsParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.columns % 32 != 0) return cudaErrorInvalidValue;
  fragments_kernel<<<blocks_for(p.rows, 8), threads, 0, stream>>>(p);
  return cudaGetLastError();
}

cudaError_t launch(const MatMulQuantParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.in_blocks < p.blocks) return cudaErrorInvalidValue;
  if (p.type == WeightType::q4_0) {
    launch_for<Levels4>(p, stream);
  } else if (p.type == WeightType::q8_0) {
    launch_for<Levels8>(p, stream);
  } else {
    return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
