// The 16-bit float formats in arithmetic: every operation is done in double, where it is exact or nearly so, and
// rounded once.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/half.h"

namespace ptxsim {

// All of it without a branch, so that loops over lanes become vector code.

/// To float towards zero, with the last bit set where something was cut off: so a second rounding to fewer bits cannot
/// go wrong. What is below the smallest normal float becomes zero or that float, which is all the same for halves.
inline float round_to_odd(double v) noexcept {
  const auto bits = std::bit_cast<std::uint64_t>(v);
  const auto sign = static_cast<std::uint32_t>(bits >> 32) & 0x80000000U;
  const auto exponent = static_cast<std::int32_t>(static_cast<std::uint32_t>(bits >> 52) & 0x7ffU) - 896;  // 1023 - 127
  const auto top = static_cast<std::uint32_t>(bits >> 29) & 0x7fffffU;
  const std::uint32_t sticky = (bits & 0x1fffffffU) != 0 ? 1U : 0U;
  std::uint32_t out = sign | static_cast<std::uint32_t>(exponent) << 23 | top | sticky;
  if (exponent <= 0) out = sign | 0x00800000U;
  // Infinity, NaN, too large, zero: as the hardware converts them.
  if (exponent >= 255 || (bits << 1) == 0) out = std::bit_cast<std::uint32_t>(static_cast<float>(v));
  return std::bit_cast<float>(out);
}

struct F16 {
  static float widen(std::uint16_t v) noexcept {
    const std::uint32_t magnitude = static_cast<std::uint32_t>(v & 0x7fffU) << 13;
    std::uint32_t bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
    if (magnitude >= 0x0f800000U) bits = magnitude | 0x7f800000U;  // infinity and NaN
    return std::bit_cast<float>(bits | static_cast<std::uint32_t>(v & 0x8000U) << 16);
  }
  /// The same bits as llminfer::core::f32_to_f16.
  static std::uint16_t round(float v) noexcept {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(v);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    std::uint32_t out = (magnitude - (112U << 23) + 0xfffU + (magnitude >> 13 & 1U)) >> 13;
    // Subnormal halves count units of 2^-24, which is what the last bit of 0.5 is worth: the sum rounds to them.
    const std::uint32_t units = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
    if (magnitude < 0x38800000U) out = units;
    if (magnitude >= 0x477ff000U) out = 0x7c00U;
    if (magnitude > 0x7f800000U) out = 0x7e00U | (magnitude >> 13 & 0x3ffU);
    return static_cast<std::uint16_t>(out | (bits >> 16 & 0x8000U));
  }
  static std::uint16_t round(double v) noexcept { return round(round_to_odd(v)); }
};

struct BF16 {
  static float widen(std::uint16_t v) noexcept { return llminfer::core::bf16_to_f32(v); }
  static std::uint16_t round(float v) noexcept {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(v);
    std::uint32_t out = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
    if ((bits & 0x7fffffffU) > 0x7f800000U) out = bits >> 16 | 0x40U;
    return static_cast<std::uint16_t>(out);
  }
  static std::uint16_t round(double v) noexcept { return round(round_to_odd(v)); }
};

}  // namespace ptxsim
