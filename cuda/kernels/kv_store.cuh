// How one warp stores 32 values of a row of keys or values.
#pragma once

#include "kernels/kv_rows.cuh"

namespace llminfer::cuda {

/// Of 32 lanes the value that is largest in size, of equal ones the first lane's.
__device__ inline float extreme_of(float v) {
  for (int d = 16; d > 0; d /= 2) {
    const float other = __shfl_down_sync(0xffffffffU, v, d);
    if (fabsf(other) > fabsf(v)) v = other;
  }
  return __shfl_sync(0xffffffffU, v, 0);
}

/// Rounds half away from zero, as the scalar encoder does.
__device__ inline int whole(float v) {
  const float magnitude = floorf(fabsf(v) + 0.5F);
  return static_cast<int>(v < 0 ? -magnitude : magnitude);
}

template <KvType Type>
__device__ void store_group(std::uint8_t* block, int groups, int row, int group, int lane, float v) {
  const float extreme = extreme_of(v);
  const float d = Type == KvType::q8_0 ? fabsf(extreme) / 127.0F : extreme / -8.0F;
  const float inverse = d == 0 ? 0.0F : 1.0F / d;
  if constexpr (Type == KvType::q8_0) {
    block[kv_chunk_at<Type>(groups, row, 2 * group + lane / 16) + lane % 16] =
        static_cast<std::uint8_t>(whole(v * inverse));
  } else {
    const int level = min(15, static_cast<int>(fmaxf(v * inverse + 8.5F, 0.0F)));
    const int upper = __shfl_down_sync(0xffffffffU, level, 16);
    if (lane < 16) block[kv_chunk_at<Type>(groups, row, group) + lane] = static_cast<std::uint8_t>(level | upper << 4);
  }
  if (lane == 0) {
    unsigned short* scales = reinterpret_cast<unsigned short*>(block + kv_scales_at<Type>(groups));
    scales[row * groups + group] = __half_as_ushort(__float2half_rn(d));
  }
}

/// Value `i` of row `row` of a head's block, one lane a value; all lanes of the warp, i a multiple of 32 plus the lane.
template <KvType Type>
__device__ void store_value(std::uint8_t* block, int width, int row, int i, float v) {
  if constexpr (Type == KvType::q8_0 || Type == KvType::q4_0) {
    store_group<Type>(block, (width + 31) / 32, row, i / 32, i % 32, v);
  } else if (i < width) {
    if constexpr (Type == KvType::f32) reinterpret_cast<float*>(block)[row * width + i] = v;
    if constexpr (Type == KvType::f16) {
      reinterpret_cast<unsigned short*>(block)[row * width + i] = __half_as_ushort(__float2half_rn(v));
    }
    if constexpr (Type == KvType::bf16) {
      reinterpret_cast<unsigned short*>(block)[row * width + i] = __bfloat16_as_ushort(__float2bfloat16_rn(v));
    }
  }
}

/// All of a row: `value_of(i)` is its value i, i < width.
template <KvType Type, class ValueOf>
__device__ void store_row_of(std::uint8_t* block, int width, int row, int lane, const ValueOf& value_of) {
#pragma unroll 1
  for (int k = 0; k < width; k += 32) {
    const int i = k + lane;
    store_value<Type>(block, width, row, i, i < width ? value_of(i) : 0.0F);
  }
}

/// The same where the type is known at run time.
template <class ValueOf>
__device__ void store_row(KvType type, std::uint8_t* block, int width, int row, int lane, const ValueOf& value_of) {
  if (type == KvType::f32) store_row_of<KvType::f32>(block, width, row, lane, value_of);
  if (type == KvType::f16) store_row_of<KvType::f16>(block, width, row, lane, value_of);
  if (type == KvType::bf16) store_row_of<KvType::bf16>(block, width, row, lane, value_of);
  if (type == KvType::q8_0) store_row_of<KvType::q8_0>(block, width, row, lane, value_of);
  if (type == KvType::q4_0) store_row_of<KvType::q4_0>(block, width, row, lane, value_of);
}

}  // namespace llminfer::cuda
