// One value of a cached row.
#pragma once

#include "kernels/kv_layout.h"
#include "kernels/numbers.cuh"

namespace llminfer::cuda {

/// The block of `head` that holds `position` of a sequence whose pages are `pages`.
__device__ inline std::uint8_t* kv_block(const KvSide& side, const std::int32_t* pages, int position, int head) {
  return side.data + pages[position / kv_page] * side.page_bytes + side.offset + head * side.block_bytes;
}

/// Where 16 bytes of a row's levels are in a quantized block (see kv_layout.h): chunk c of `groups` * 32 values, which
/// are two chunks a group of q8_0 and one of q4_0.
template <KvType Type>
__host__ __device__ inline int kv_chunk_at(int groups, int row, int c) {
  const int chunks = Type == KvType::q8_0 ? 2 * groups : groups;
  const bool alone = c + 1 == chunks && c % 2 == 0;
  return c / 2 * 32 * kv_page + (alone ? 16 * row : 32 * row + c % 2 * 16);
}
/// Where the scales begin: [16][groups] halves.
template <KvType Type>
__host__ __device__ inline int kv_scales_at(int groups) {
  return kv_page * groups * (Type == KvType::q8_0 ? 32 : 16);
}

/// Value i of row `row` (position % 16) of a block.
template <KvType Type>
__device__ inline float kv_value(const std::uint8_t* block, int width, int row, int i) {
  if constexpr (Type == KvType::f32) {
    return reinterpret_cast<const float*>(block)[row * width + i];
  } else if constexpr (Type == KvType::f16) {
    return f16_at(block + 2 * (row * width + i));
  } else if constexpr (Type == KvType::bf16) {
    return bf16_at(block + 2 * (row * width + i));
  } else {
    const int groups = (width + 31) / 32;
    const float d = f16_at(block + kv_scales_at<Type>(groups) + 2 * (row * groups + i / 32));
    if constexpr (Type == KvType::q8_0) {
      return d * static_cast<float>(static_cast<signed char>(block[kv_chunk_at<Type>(groups, row, i / 16) + i % 16]));
    } else {
      const int q = block[kv_chunk_at<Type>(groups, row, i / 32) + i % 16];
      return d * static_cast<float>((i % 32 < 16 ? q & 15 : q >> 4) - 8);
    }
  }
}

/// Calls f with a type that names a side's format.
template <KvType Type>
struct KvTag {
  static constexpr KvType value = Type;
};
template <class F>
bool with_kv_type(KvType type, F f) {
  switch (type) {
    case KvType::f32:
      f(KvTag<KvType::f32>{});
      return true;
    case KvType::f16:
      f(KvTag<KvType::f16>{});
      return true;
    case KvType::bf16:
      f(KvTag<KvType::bf16>{});
      return true;
    case KvType::q8_0:
      f(KvTag<KvType::q8_0>{});
      return true;
    case KvType::q4_0:
      f(KvTag<KvType::q4_0>{});
      return true;
    case KvType::automatic:
      break;
  }
  return false;
}

}  // namespace llminfer::cuda
