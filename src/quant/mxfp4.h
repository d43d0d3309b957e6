// MXFP4 (OCP microscaling): 32 numbers of type E2M1 under one power of two, 2^(e - 127).
// Facts: OCP Microscaling Formats v1.0 and the `gguf` Python package's dequantizer. As there, the levels are doubled
// and the scale halved, which keeps all levels whole; the code for -0 gives +0, and e = 255 is 2^128, not NaN.
#pragma once

#include "quant/block.h"

namespace llminfer::quant {

inline constexpr std::int8_t mxfp4_levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// Weights 0..15 in the low nibbles, 16..31 in the high ones.
struct BlockMxfp4 {
  static constexpr std::uint32_t weights = 32;
  std::uint8_t e;
  std::uint8_t qs[16];
};
static_assert(sizeof(BlockMxfp4) == 17);

/// 2^(e - 128), for e of 0 and 1 a subnormal.
inline float half_power_of_two(std::uint8_t e) noexcept {
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1u) << 23);
}

inline void unpack(const BlockMxfp4& block, float* out) noexcept {
  const float d = half_power_of_two(block.e);
  for (unsigned i = 0; i < 32; ++i) out[i] = d * static_cast<float>(mxfp4_levels[split_nibble(block.qs, 16, i)]);
}

}  // namespace llminfer::quant
