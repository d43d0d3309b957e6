// Unquantized weights: blocks of one number.
#pragma once

#include "core/half.h"
#include "quant/block.h"

namespace llminfer::quant {

struct BlockF32 {
  static constexpr std::uint32_t weights = 1;
  float value;
};
static_assert(sizeof(BlockF32) == 4);

struct BlockF16 {
  static constexpr std::uint32_t weights = 1;
  std::uint16_t bits;
};
static_assert(sizeof(BlockF16) == 2);

struct BlockBf16 {
  static constexpr std::uint32_t weights = 1;
  std::uint16_t bits;
};
static_assert(sizeof(BlockBf16) == 2);

inline void unpack(const BlockF32& block, float* out) noexcept { *out = block.value; }
inline void unpack(const BlockF16& block, float* out) noexcept { *out = core::f16_to_f32(block.bits); }
inline void unpack(const BlockBf16& block, float* out) noexcept { *out = core::bf16_to_f32(block.bits); }

inline void pack(const float* in, BlockF32& block) noexcept { block.value = *in; }
inline void pack(const float* in, BlockF16& block) noexcept { block.bits = core::f32_to_f16(*in); }
inline void pack(const float* in, BlockBf16& block) noexcept { block.bits = core::f32_to_bf16(*in); }

}  // namespace llminfer::quant
