// What the attention kernels on tensor cores share: pairs of 16-bit floats of either kind, sums and maxima of the rows
// of a product.
//
// Lane 4 g + t of a warp has of a product of 16 rows the columns 8 n + 2 t and 8 n + 2 t + 1 of rows g and g + 8, in
// elements 0 and 1, 2 and 3 of tile n.
#pragma once

#include <llminfer/kv_type.hpp>

#include "kernels/mma.cuh"

namespace llminfer::cuda {

/// Over the four lanes that share a row.
__device__ inline float row_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(0xffffffffU, v, 1));
  return fmaxf(v, __shfl_xor_sync(0xffffffffU, v, 2));
}
__device__ inline float row_sum(float v) {
  v += __shfl_xor_sync(0xffffffffU, v, 1);
  return v + __shfl_xor_sync(0xffffffffU, v, 2);
}

/// The power of two below a row's largest value: what is divided by it fits into halves.
__device__ inline float power_below(float largest) {
  return __uint_as_float(min(max(__float_as_uint(largest) & 0x7f800000U, 0x00800000U), 0x7e800000U));
}

/// What tensor instructions get of keys and values that are cached so: bfloat16 stays what it is, all else becomes
/// halves. bfloat16 has 8 bits: weights that are multiplied by it are sums of two.
constexpr bool in_bf16(KvType type) { return type == KvType::bf16; }

/// Queries are sums of two where the cache has what was stored, to 2^-11 or better: rounded once they would be the most
/// of the error. Quantized caches are further off.
constexpr int query_parts(KvType type) { return type == KvType::f16 || type == KvType::bf16 ? 2 : 1; }

template <bool Bf16>
__device__ unsigned pair_of(float low, float high) {
  return Bf16 ? pair_of_bf16(low, high) : pair_of_halves(low, high);
}
/// What a pair leaves of two floats.
template <bool Bf16>
__device__ unsigned rest_of(unsigned pair, float low, float high) {
  const float2 there = Bf16 ? floats_of_bf16(pair) : floats_of_pair(pair);
  return pair_of<Bf16>(low - there.x, high - there.y);
}
template <bool Bf16>
__device__ void multiply_add_as(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (Bf16) {
    multiply_add_bf16(d, a, b0, b1);
  } else {
    multiply_add(d, a, b0, b1);
  }
}

constexpr float log2_e = 1.44269504F;

/// What products of queries and keys are multiplied by to be scores in powers of two; of capped ones, to be the
/// exponent of their tanh.
__device__ inline float score_factor(float scale, float cap) {
  return cap > 0 ? scale * (2 * log2_e / cap) : scale * log2_e;
}

/// Of the exponent of its tanh.
__device__ inline float capped_score(float v, float cap) {
  return cap * log2_e * (1.0F - __fdividef(2.0F, power_of_two(v) + 1.0F));
}

/// Products become scores in powers of two, capped where `cap` > 0.
template <int Tiles>
__device__ void finish_scores(float (&s)[Tiles][4], const float (&factor)[2], float cap) {
#pragma unroll
  for (auto& tile : s) {
#pragma unroll
    for (int e = 0; e < 4; ++e) tile[e] *= factor[e / 2];
  }
  if (cap <= 0) return;
#pragma unroll
  for (auto& tile : s) {
#pragma unroll
    for (float& v : tile) v = capped_score(v, cap);
  }
}

}  // namespace llminfer::cuda
