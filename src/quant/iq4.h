// IQ4_NL and IQ4_XS: four bits choose one of 16 unevenly spaced levels. NL: 32 weights under one scale d (half);
// XS: 256 weights in 8 groups of 32, each with a six-bit scale under d.
// Facts: dequantizers of the `gguf` Python package; products are rounded in its order.
#pragma once

#include "core/half.h"
#include "quant/block.h"

namespace llminfer::quant {

inline constexpr std::int8_t iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

/// Weights 0..15 in the low nibbles, 16..31 in the high ones.
struct BlockIq4Nl {
  static constexpr std::uint32_t weights = 32;
  std::uint16_t d;
  std::uint8_t qs[16];
};
static_assert(sizeof(BlockIq4Nl) == 18);

/// Group g has bytes 16 * g on of qs, laid out as in IQ4_NL. Its scale, plus 32: nibble g of scales_l (low first), then
/// bits 2 * g of scales_h.
struct BlockIq4Xs {
  static constexpr std::uint32_t weights = 256;
  std::uint16_t d, scales_h;
  std::uint8_t scales_l[4];
  std::uint8_t qs[128];
};
static_assert(sizeof(BlockIq4Xs) == 136);

inline void unpack(const BlockIq4Nl& block, float* out) noexcept {
  const float d = core::f16_to_f32(block.d);
  for (unsigned i = 0; i < 32; ++i) out[i] = d * static_cast<float>(iq4_levels[split_nibble(block.qs, 16, i)]);
}

inline void unpack(const BlockIq4Xs& block, float* out) noexcept {
  const float d = core::f16_to_f32(block.d);
  for (unsigned group = 0; group < 8; ++group) {
    const int low = (block.scales_l[group / 2] >> (4 * (group % 2))) & 0x0f;
    const int scale = (low | (block.scales_h >> (2 * group) & 3) << 4) - 32;
    const float group_d = d * static_cast<float>(scale);
    for (unsigned i = 0; i < 32; ++i) {
      out[32 * group + i] = group_d * static_cast<float>(iq4_levels[split_nibble(block.qs + 16 * group, 16, i)]);
    }
  }
}

}  // namespace llminfer::quant
