// The queries of a block of attention_mma: the heads of one token that read one KV head.
#pragma once

#include "kernels/attention.h"
#include "kernels/attention_math.cuh"

namespace llminfer::cuda {

/// Where blocks stand: a block has up to eight query heads of one KV head.
struct BlockHeads {
  int kv_head, first, count;

  __device__ explicit BlockHeads(const AttentionParams& p) {
    const int group = p.heads / p.kv_heads, blocks = (group + 7) / 8, block = static_cast<int>(blockIdx.y);
    kv_head = block / blocks;
    const int before = 8 * (block - kv_head * blocks);
    first = kv_head * group + before;
    count = min(8, group - before);
  }
};

/// In the order of mma's B operand, whose columns are heads: lane 4 g + t brings head g. Pages says which columns of a
/// head a lane multiplies.
template <class Pages, int D>
struct Query {
  static constexpr int steps = D / 16;
  static constexpr int parts = query_parts(Pages::type);  // what is rounded, and the rest
  /// Where registers do not hold it all warps read it from shared memory.
  static constexpr bool in_shared = Pages::query_in_shared;
  static constexpr int shared_words = in_shared ? parts * steps * 32 : 1;  // of 8 bytes
  uint2 b[parts * steps];
  const uint2* room;  // of this lane, every 32nd one
  float factor[2];    // of the scores of heads 2 t and 2 t + 1, with the power of two that was taken out

  __device__ void load(const AttentionParams& p, int token, const BlockHeads& heads) {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const bool there = g < heads.count;
    const float* from = p.q + (static_cast<std::int64_t>(token) * p.heads + heads.first + (there ? g : 0)) * D;
    float largest = 0;
#pragma unroll
    for (int s = 0; s < steps; ++s) {
      const float4 v = Pages::query_of(from, s, t);
      largest = fmaxf(fmaxf(largest, fmaxf(fabsf(v.x), fabsf(v.y))), fmaxf(fabsf(v.z), fabsf(v.w)));
    }
    const float power = power_below(row_max(largest)), inverse = there ? 1.0F / power : 0.0F;
    const float own = score_factor(p.scale * power * Pages::unit, p.cap);
    factor[0] = __shfl_sync(0xffffffffU, own, 8 * t);
    factor[1] = __shfl_sync(0xffffffffU, own, 8 * t + 4);
#pragma unroll
    for (int s = 0; s < steps; ++s) {
      const float4 v = Pages::query_of(from, s, t);
      const float by = inverse * Pages::query_power(s), x = v.x * by, y = v.y * by, z = v.z * by, w = v.w * by;
      const uint2 q = make_uint2(pair_of<Pages::bf16>(x, y), pair_of<Pages::bf16>(z, w));
      b[s] = q;
      if constexpr (parts == 2) {
        b[steps + s] = make_uint2(rest_of<Pages::bf16>(q.x, x, y), rest_of<Pages::bf16>(q.y, z, w));
      }
    }
  }
  /// By all threads of the block.
  __device__ void share(uint2* shared) {
    if constexpr (in_shared) {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      if (threadIdx.x < 32) {
#pragma unroll
        for (int i = 0; i < parts * steps; ++i) shared[32 * i + lane] = b[i];
      }
      __syncthreads();
      room = shared + lane;
    }
  }
  /// s += a step's columns of 16 keys by those of the heads.
  __device__ void multiply(int step, const unsigned (&keys)[4], float (&s)[4]) const {
#pragma unroll
    for (int part = parts - 1; part >= 0; --part) {
      const uint2 q = of(part * steps + step);
      multiply_add_as<Pages::bf16>(s, keys, q.x, q.y);
    }
  }
  /// s = the same, plus `from` of each head.
  __device__ void multiply_on(int step, const unsigned (&keys)[4], float (&s)[4], float2 from) const {
    static_assert(parts == 1);
    const uint2 q = of(step);
    llminfer::cuda::multiply(s, keys, q.x, q.y, {from.x, from.y, from.x, from.y});
  }

 private:
  __device__ uint2 of(int part) const {
    if constexpr (in_shared) {
      return room[32 * part];
    } else {
      return b[part];
    }
  }
};

}  // namespace llminfer::cuda
