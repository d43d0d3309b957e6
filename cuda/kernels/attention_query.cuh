// The queries of a block of attention_mma: the heads of one token that read one KV head.
#pragma once

#include "kernels/attention.h"
#include "kernels/attention_math.cuh"

namespace llminfer::cuda {

/// In the order of mma's A operand; rows are heads. Pages says which columns a lane multiplies.
template <class Pages, int D>
struct Query {
  static constexpr int steps = D / 16;
  static constexpr int parts = query_parts(Pages::type);  // what is rounded, and the rest
  /// Wide heads, and two parts, leave no registers for it: all warps read it from shared memory then.
  static constexpr bool in_shared = D > 128 || parts == 2;
  static constexpr int shared_words = in_shared ? parts * steps * 32 : 1;  // of 16 bytes
  unsigned a[parts * steps][4];
  const uint4* room;  // of this lane, every 32nd one
  float factor[2];    // of scores, with the power of two that was taken out

  __device__ void load(const AttentionParams& p, int token, int kv_head, int group) {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = g + 8 * half;
      const bool there = row < group;
      const float* from = p.q + (static_cast<std::int64_t>(token) * p.heads + kv_head * group + (there ? row : 0)) * D;
      float largest = 0;
#pragma unroll
      for (int s = 0; s < steps; ++s) {
        const float4 v = four(from, s, t);
        largest = fmaxf(fmaxf(largest, fmaxf(fabsf(v.x), fabsf(v.y))), fmaxf(fabsf(v.z), fabsf(v.w)));
      }
      const float power = power_below(row_max(largest)), inverse = there ? 1.0F / power : 0.0F;
      factor[half] = score_factor(p.scale * power, p.cap);
#pragma unroll
      for (int s = 0; s < steps; ++s) {
        const float4 v = four(from, s, t);
        put(s, half, v.x * inverse, v.y * inverse);
        put(s, half + 2, v.z * inverse, v.w * inverse);
      }
    }
  }
  /// By all threads of the block.
  __device__ void share(uint4* shared) {
    if constexpr (in_shared) {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      if (threadIdx.x < 32) {
#pragma unroll
        for (int s = 0; s < parts * steps; ++s) shared[32 * s + lane] = make_uint4(a[s][0], a[s][1], a[s][2], a[s][3]);
      }
      __syncthreads();
      room = shared + lane;
    }
  }
  /// s += the step's columns by those of eight keys.
  __device__ void multiply(int step, unsigned low, unsigned high, float (&s)[4]) const {
    if constexpr (parts == 2) multiply_part(steps + step, low, high, s);
    multiply_part(step, low, high, s);
  }

 private:
  __device__ static float4 four(const float* from, int step, int t) {
    const int first = Pages::query_column(step, t, 0), second = Pages::query_column(step, t, 1);
    if (second == first + 2) return *reinterpret_cast<const float4*>(from + first);
    const float2 a = *reinterpret_cast<const float2*>(from + first),
                 b = *reinterpret_cast<const float2*>(from + second);
    return make_float4(a.x, a.y, b.x, b.y);
  }
  __device__ void put(int step, int i, float low, float high) {
    a[step][i] = pair_of<Pages::bf16>(low, high);
    if constexpr (parts == 2) a[steps + step][i] = rest_of<Pages::bf16>(a[step][i], low, high);
  }
  __device__ void multiply_part(int part, unsigned low, unsigned high, float (&s)[4]) const {
    if constexpr (in_shared) {
      const uint4 v = room[32 * part];
      const unsigned of_room[4] = {v.x, v.y, v.z, v.w};
      multiply_add_as<Pages::bf16>(s, of_room, low, high);
    } else {
      multiply_add_as<Pages::bf16>(s, a[part], low, high);
    }
  }
};

}  // namespace llminfer::cuda
