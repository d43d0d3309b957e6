// The 16-bit float formats in arithmetic: every operation is done in double, where it is exact or nearly so, and
// rounded once.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/half.h"

namespace ptxsim {

/// To float towards zero, with the last bit set where something was cut off: so a second rounding to fewer bits cannot
/// go wrong. What is below the smallest normal float becomes zero or that float, which is all the same for halves.
inline float round_to_odd(double v) noexcept {
  const auto bits = std::bit_cast<std::uint64_t>(v);
  const auto sign = static_cast<std::uint32_t>(bits >> 32) & 0x80000000U;
  const auto exponent = static_cast<std::int64_t>(bits >> 52 & 0x7ff) - 896;  // of a float: 1023 - 127
  if (exponent >= 255 || (bits << 1) == 0) return static_cast<float>(v);      // infinity, NaN, too large, zero
  if (exponent <= 0) return std::bit_cast<float>(sign | 0x00800000U);
  const auto top = static_cast<std::uint32_t>(bits >> 29) & 0x7fffffU;
  const std::uint32_t sticky = (bits & 0x1fffffffU) != 0 ? 1 : 0;
  return std::bit_cast<float>(sign | static_cast<std::uint32_t>(exponent) << 23 | top | sticky);
}

struct F16 {
  static float widen(std::uint16_t v) noexcept {
    const std::uint32_t magnitude = static_cast<std::uint32_t>(v & 0x7fffU) << 13;
    std::uint32_t bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
    if (magnitude >= 0x0f800000U) bits = magnitude | 0x7f800000U;  // infinity and NaN
    return std::bit_cast<float>(bits | static_cast<std::uint32_t>(v & 0x8000U) << 16);
  }
  static std::uint16_t round(float v) noexcept { return llminfer::core::f32_to_f16(v); }
  static std::uint16_t round(double v) noexcept { return round(round_to_odd(v)); }
};

struct BF16 {
  static float widen(std::uint16_t v) noexcept { return llminfer::core::bf16_to_f32(v); }
  static std::uint16_t round(float v) noexcept { return llminfer::core::f32_to_bf16(v); }
  static std::uint16_t round(double v) noexcept { return round(round_to_odd(v)); }
};

}  // namespace ptxsim
