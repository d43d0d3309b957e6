// The first GGUF formats: 32 weights share one scale d (half), the "_1" kinds also one minimum m (half).
//   Q4_0, Q5_0, Q8_0: w = d * q, q signed        Q4_1, Q5_1: w = d * q + m, q unsigned
// Weights 0..15 lie in the low nibbles of qs, 16..31 in the high ones; the fifth bit of weight i is bit i of qh.
// Facts: dequantizers of the `gguf` Python package; products are rounded in its order. Packers: legacy_pack.h.
#pragma once

#include "core/half.h"
#include "quant/block.h"

namespace llminfer::quant {

// NOLINTBEGIN(readability-identifier-naming): the names as GGUF spells them
struct BlockQ4_0 {
  static constexpr std::uint32_t weights = 32;
  std::uint16_t d;
  std::uint8_t qs[16];  // q + 8
};
static_assert(sizeof(BlockQ4_0) == 18);

struct BlockQ4_1 {
  static constexpr std::uint32_t weights = 32;
  std::uint16_t d, m;
  std::uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

struct BlockQ5_0 {
  static constexpr std::uint32_t weights = 32;
  std::uint16_t d;
  std::uint8_t qh[4];
  std::uint8_t qs[16];  // with qh: q + 16
};
static_assert(sizeof(BlockQ5_0) == 22);

struct BlockQ5_1 {
  static constexpr std::uint32_t weights = 32;
  std::uint16_t d, m;
  std::uint8_t qh[4];
  std::uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

struct BlockQ8_0 {
  static constexpr std::uint32_t weights = 32;
  std::uint16_t d;
  std::int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);
// NOLINTEND(readability-identifier-naming)

/// The five bits of weight i (0..31).
inline int five_bits(const std::uint8_t (&qh)[4], const std::uint8_t (&qs)[16], unsigned i) noexcept {
  return split_nibble(qs, 16, i) | ((qh[i / 8] >> (i % 8)) & 1) << 4;
}

inline void unpack(const BlockQ4_0& block, float* out) noexcept {
  const float d = core::f16_to_f32(block.d);
  for (unsigned i = 0; i < 32; ++i) out[i] = d * static_cast<float>(split_nibble(block.qs, 16, i) - 8);
}

inline void unpack(const BlockQ4_1& block, float* out) noexcept {
  const float d = core::f16_to_f32(block.d), m = core::f16_to_f32(block.m);
  for (unsigned i = 0; i < 32; ++i) out[i] = d * static_cast<float>(split_nibble(block.qs, 16, i)) + m;
}

inline void unpack(const BlockQ5_0& block, float* out) noexcept {
  const float d = core::f16_to_f32(block.d);
  for (unsigned i = 0; i < 32; ++i) out[i] = d * static_cast<float>(five_bits(block.qh, block.qs, i) - 16);
}

inline void unpack(const BlockQ5_1& block, float* out) noexcept {
  const float d = core::f16_to_f32(block.d), m = core::f16_to_f32(block.m);
  for (unsigned i = 0; i < 32; ++i) out[i] = d * static_cast<float>(five_bits(block.qh, block.qs, i)) + m;
}

inline void unpack(const BlockQ8_0& block, float* out) noexcept {
  const float d = core::f16_to_f32(block.d);
  for (unsigned i = 0; i < 32; ++i) out[i] = d * static_cast<float>(block.qs[i]);
}

}  // namespace llminfer::quant
