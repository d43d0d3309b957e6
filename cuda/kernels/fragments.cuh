// Fragments of a tile of eight rows by one block: of a launch of their own, or the last one of the launch that made the
// values. Rows are read twice: for their sum of squares and largest value, then for the fragments.
#pragma once

#include "kernels/fragments.h"
#include "kernels/mma.cuh"
#include "kernels/numbers.cuh"

namespace llminfer::cuda {

/// Columns of a row go to eight slices, which are added in their order: sums do not depend on the number of warps.
constexpr int fragment_slices = 8;

struct FragmentsRoom {
  float squares[8][fragment_slices], largest[8][fragment_slices];
  float inverse[8], factor[8];
};

/// The power of two below the largest value: 1 for rows of zeros and where there is no such number.
__device__ inline float row_scale(float largest) {
  const unsigned exponent = __float_as_uint(largest) & 0x7f800000U;
  if (exponent == 0x7f800000U || largest == 0) return 1.0F;
  return exponent == 0 ? __uint_as_float(0x00800000U) : __uint_as_float(exponent);
}

__device__ inline const float* fragments_row(const FragmentsParams& p, int row) {
  const std::int64_t from = p.rows_wanted != nullptr ? p.rows_wanted[row] : row;
  return p.in + from * p.columns;
}

__device__ inline int rows_there(const FragmentsParams& p, int tile) {
  int rows = min(8, p.rows - 8 * tile);
  if (p.rows_wanted == nullptr) return rows;
#pragma unroll 1
  while (rows > 0 && p.rows_wanted[8 * tile + rows - 1] < 0) --rows;
  return rows;
}

/// Sum of squares and largest value (of in * weight) of a slice of a row.
__device__ inline void measure_slice(const FragmentsParams& p, int row, int slice, int lane, float& squares,
                                     float& largest) {
  const float* in = fragments_row(p, row);
#pragma unroll 4
  for (int k = 128 * slice + 4 * lane; k < p.columns; k += 128 * fragment_slices) {
    float4 v = __ldcg(reinterpret_cast<const float4*>(in + k));
    if (p.weight != nullptr) {
      squares = fmaf(v.x, v.x, fmaf(v.y, v.y, fmaf(v.z, v.z, fmaf(v.w, v.w, squares))));
      const float4 w = __ldg(reinterpret_cast<const float4*>(p.weight + k));
      v = make_float4(v.x * w.x, v.y * w.y, v.z * w.z, v.w * w.w);
    }
    largest = fmaxf(fmaxf(largest, fmaxf(fabsf(v.x), fabsf(v.y))), fmaxf(fabsf(v.z), fabsf(v.w)));
  }
}

/// What a row is multiplied by: for the norm, and to bring its largest value to about [1, 2).
__device__ inline void finish_measures(const FragmentsParams& p, int tile, int row, bool there, FragmentsRoom& room) {
  float squares = 0, largest = 0, factor = 1, scale = 1;
  if (there) {
#pragma unroll
    for (int s = 0; s < fragment_slices; ++s) {
      squares += room.squares[row][s];
      largest = fmaxf(largest, room.largest[row][s]);
    }
    if (p.weight != nullptr) {
      factor = __fdiv_rn(1.0F, __fsqrt_rn(__fadd_rn(__fdiv_rn(squares, static_cast<float>(p.columns)), p.eps)));
    }
    scale = row_scale(largest * factor);
  }
  room.factor[row] = factor;
  room.inverse[row] = 1.0F / scale;
  p.scales[8 * tile + row] = scale;
}

/// By all threads of a block of `Warps` warps. `room`: nobody uses it any more.
template <int Warps>
__device__ void make_fragments(const FragmentsParams& p, int tile, FragmentsRoom& room) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first = 8 * tile, rows = rows_there(p, tile);
  if (rows <= 0) return;
#pragma unroll 1
  for (int unit = warp; unit < rows * fragment_slices; unit += Warps) {
    const int row = unit / fragment_slices, slice = unit % fragment_slices;
    float squares = 0, largest = 0;
    measure_slice(p, first + row, slice, lane, squares, largest);
    squares = warp_sum(squares);
    largest = warp_max(largest);
    if (lane == 0) {
      room.squares[row][slice] = squares;
      room.largest[row][slice] = largest;
    }
  }
  __syncthreads();
  if (threadIdx.x < 8)
    finish_measures(p, tile, static_cast<int>(threadIdx.x), static_cast<int>(threadIdx.x) < rows, room);
  __syncthreads();
  // Four lanes make a row's part of a block of 32 columns. Where there are few rows a warp makes several blocks.
  const int shift = rows > 4 ? 3 : rows > 2 ? 2 : rows > 1 ? 1 : 0;
  const int row = lane / 4 & ((1 << shift) - 1), t = lane % 4, blocks = 8 >> shift;
  const float factor = room.factor[row], inverse = room.inverse[row];
  const float* in = row < rows ? fragments_row(p, first + row) : nullptr;
#pragma unroll 1
  for (int b = warp * blocks; b < p.blocks; b += Warps * blocks) {
    const int block = b + (lane / 4 >> shift);
    unsigned word[4] = {}, rest[4] = {};
    if (in != nullptr && 32 * block < p.columns) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int k = 32 * block + 8 * n + 2 * t;
        float2 v = __ldcg(reinterpret_cast<const float2*>(in + k));
        if (p.weight != nullptr) {
          const float2 w = __ldg(reinterpret_cast<const float2*>(p.weight + k));
          v = make_float2(v.x * factor * w.x, v.y * factor * w.y);
        }
        if (p.out != nullptr) {
          *reinterpret_cast<float2*>(p.out + static_cast<std::int64_t>(first + row) * p.columns + k) = v;
        }
        const float2 scaled = make_float2(v.x * inverse, v.y * inverse);
        word[n] = pair_of_halves(scaled.x, scaled.y);
        const float2 there_is = floats_of_pair(word[n]);
        rest[n] = pair_of_halves(scaled.x - there_is.x, scaled.y - there_is.y);
      }
    }
    // Sums of what the product sees: of the rounded values.
    float sum[2];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const float2 v = floats_of_pair(word[2 * n]), w = floats_of_pair(word[2 * n + 1]);
      sum[n] = v.x + v.y + w.x + w.y;
      sum[n] += __shfl_xor_sync(0xffffffffU, sum[n], 1);
      sum[n] += __shfl_xor_sync(0xffffffffU, sum[n], 2);
    }
    if (block < p.blocks) {
      const std::int64_t at = (static_cast<std::int64_t>(tile) * p.blocks + block) * 32 + row * 4 + t;
      reinterpret_cast<uint4*>(p.fragments)[at] = make_uint4(word[0], word[1], word[2], word[3]);
      if (p.rest != nullptr) reinterpret_cast<uint4*>(p.rest)[at] = make_uint4(rest[0], rest[1], rest[2], rest[3]);
      if (t == 0) {
        p.block_sums[block_sum_at(tile, p.blocks, row, block)] = sum[0] + sum[1];
        float* steps = p.block_sums + step_sums_at(p.rows, p.blocks) + step_sum_at(tile, p.blocks, row, block);
        *reinterpret_cast<float2*>(steps) = make_float2(sum[0], sum[1]);
      }
    }
  }
}

}  // namespace llminfer::cuda
