// The K formats: 256 weights in groups of 16 or 32, each group with a small whole-number scale (and minimum) under one
// scale d (and one dmin) of the block, both halves.
//   Q2_K, Q4_K, Q5_K: w = (d * scale) * q - (dmin * min), q unsigned       Q3_K, Q6_K: w = (d * scale) * q, q signed
// Facts: dequantizers of the `gguf` Python package; products are rounded in its order.
#pragma once

#include "core/half.h"
#include "quant/block.h"

namespace llminfer::quant {

/// 16 groups of 16. Weight i: bits 2*((i % 128) / 32) of qs[32 * (i / 128) + i % 32].
struct BlockQ2K {
  static constexpr std::uint32_t weights = 256;
  std::uint8_t scales[16];  // low nibble: scale, high nibble: minimum
  std::uint8_t qs[64];
  std::uint16_t d, dmin;
};
static_assert(sizeof(BlockQ2K) == 84);

/// 16 groups of 16. Low two bits as in Q2_K; bit i / 32 of hmask[i % 32] clear: 4 less.
struct BlockQ3K {
  static constexpr std::uint32_t weights = 256;
  std::uint8_t hmask[32];
  std::uint8_t qs[64];
  std::uint8_t scales[12];  // six bits each, plus 32; see scale_q3()
  std::uint16_t d;
};
static_assert(sizeof(BlockQ3K) == 110);

/// 8 groups of 32. Weight i: a nibble of qs[32 * (i / 64) + i % 32], the low one for even groups.
struct BlockQ4K {
  static constexpr std::uint32_t weights = 256;
  std::uint16_t d, dmin;
  std::uint8_t scales[12];  // six bits each; see scale_q4() and minimum_q4()
  std::uint8_t qs[128];
};
static_assert(sizeof(BlockQ4K) == 144);

/// As Q4_K, with the fifth bit of weight i in bit i / 32 of qh[i % 32].
struct BlockQ5K {
  static constexpr std::uint32_t weights = 256;
  std::uint16_t d, dmin;
  std::uint8_t scales[12];
  std::uint8_t qh[32];
  std::uint8_t qs[128];
};
static_assert(sizeof(BlockQ5K) == 176);

/// 16 groups of 16. Weight i: low nibble bits from ql[64 * (i / 128) + i % 64] (high nibble for the later 64 of each
/// 128), two upper bits from qh[32 * (i / 128) + i % 32], all minus 32.
struct BlockQ6K {
  static constexpr std::uint32_t weights = 256;
  std::uint8_t ql[128];
  std::uint8_t qh[64];
  std::int8_t scales[16];
  std::uint16_t d;
};
static_assert(sizeof(BlockQ6K) == 210);

/// Two bits of weight i, laid out as in Q2_K.
inline int two_bits(const std::uint8_t* bytes, unsigned i) noexcept {
  return (bytes[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3;
}

/// Scale of group 0..15 of a Q3_K block, -32..31. Low four bits: nibbles of bytes 0..7 (groups 8..15 high); upper two
/// bits: bits 2 * (group / 4) of byte 8 + group % 4.
inline int scale_q3(const std::uint8_t (&scales)[12], unsigned group) noexcept {
  return (split_nibble(scales, 8, group) | (scales[8 + group % 4] >> (2 * (group / 4)) & 3) << 4) - 32;
}

/// Scale of group 0..7 of a Q4_K or Q5_K block, 0..63. Groups 0..3: six bits of bytes 0..3; groups 4..7: a nibble of
/// bytes 8..11 and the spare top bits of bytes 0..3.
inline int scale_q4(const std::uint8_t (&scales)[12], unsigned group) noexcept {
  if (group < 4) return scales[group] & 0x3f;
  return (scales[group + 4] & 0x0f) | (scales[group - 4] >> 6) << 4;
}

/// Minimum of group 0..7: as the scale, from bytes 4..7 and the high nibbles of bytes 8..11.
inline int minimum_q4(const std::uint8_t (&scales)[12], unsigned group) noexcept {
  if (group < 4) return scales[group + 4] & 0x3f;
  return scales[group + 4] >> 4 | (scales[group] >> 6) << 4;
}

inline void unpack(const BlockQ2K& block, float* out) noexcept {
  const float d = core::f16_to_f32(block.d), dmin = core::f16_to_f32(block.dmin);
  for (unsigned group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(block.scales[group] & 0x0f);
    const float minimum = dmin * static_cast<float>(block.scales[group] >> 4);
    for (unsigned i = 16 * group; i < 16 * group + 16; ++i) {
      out[i] = scale * static_cast<float>(two_bits(block.qs, i)) - minimum;
    }
  }
}

inline void unpack(const BlockQ3K& block, float* out) noexcept {
  const float d = core::f16_to_f32(block.d);
  for (unsigned group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(scale_q3(block.scales, group));
    for (unsigned i = 16 * group; i < 16 * group + 16; ++i) {
      const int upper = (block.hmask[i % 32] >> (i / 32)) & 1;
      out[i] = scale * static_cast<float>(two_bits(block.qs, i) - (upper != 0 ? 0 : 4));
    }
  }
}

inline void unpack(const BlockQ4K& block, float* out) noexcept {
  const float d = core::f16_to_f32(block.d), dmin = core::f16_to_f32(block.dmin);
  for (unsigned group = 0; group < 8; ++group) {
    const float scale = d * static_cast<float>(scale_q4(block.scales, group));
    const float minimum = dmin * static_cast<float>(minimum_q4(block.scales, group));
    const std::uint8_t* qs = block.qs + 32 * (group / 2);
    for (unsigned i = 0; i < 32; ++i) {
      const int q = (qs[i] >> (4 * (group % 2))) & 0x0f;
      out[32 * group + i] = scale * static_cast<float>(q) - minimum;
    }
  }
}

inline void unpack(const BlockQ5K& block, float* out) noexcept {
  const float d = core::f16_to_f32(block.d), dmin = core::f16_to_f32(block.dmin);
  for (unsigned group = 0; group < 8; ++group) {
    const float scale = d * static_cast<float>(scale_q4(block.scales, group));
    const float minimum = dmin * static_cast<float>(minimum_q4(block.scales, group));
    const std::uint8_t* qs = block.qs + 32 * (group / 2);
    for (unsigned i = 0; i < 32; ++i) {
      const int q = ((qs[i] >> (4 * (group % 2))) & 0x0f) | (block.qh[i] >> group & 1) << 4;
      out[32 * group + i] = scale * static_cast<float>(q) - minimum;
    }
  }
}

inline void unpack(const BlockQ6K& block, float* out) noexcept {
  const float d = core::f16_to_f32(block.d);
  for (unsigned group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(block.scales[group]);
    for (unsigned i = 16 * group; i < 16 * group + 16; ++i) {
      const int low = split_nibble(block.ql + 64 * (i / 128), 64, i % 128);
      out[i] = scale * static_cast<float>((low | two_bits(block.qh, i) << 4) - 32);
    }
  }
}

}  // namespace llminfer::quant
