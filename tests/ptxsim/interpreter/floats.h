// The 16-bit float formats in arithmetic: every operation is done in double, where it is exact or nearly so, and
// rounded once.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/half.h"

namespace ptxsim {

/// To float with the last bit set where it is not exact, so that a second rounding cannot go wrong.
inline float round_to_odd(double v) noexcept {
  const auto f = static_cast<float>(v);
  if (static_cast<double>(f) == v || std::isnan(v) || std::isinf(f)) return f;
  const auto bits = std::bit_cast<std::uint32_t>(f);
  const bool too_far = std::abs(static_cast<double>(f)) > std::abs(v);
  return std::bit_cast<float>((too_far ? bits - 1 : bits) | 1U);
}

struct F16 {
  static float widen(std::uint16_t v) noexcept {
    const std::uint32_t magnitude = static_cast<std::uint32_t>(v & 0x7fffU) << 13;
    std::uint32_t bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
    if (magnitude >= 0x0f800000U) bits = magnitude | 0x7f800000U;  // infinity and NaN
    return std::bit_cast<float>(bits | static_cast<std::uint32_t>(v & 0x8000U) << 16);
  }
  static std::uint16_t round(double v) noexcept { return llminfer::core::f32_to_f16(round_to_odd(v)); }
};

struct BF16 {
  static float widen(std::uint16_t v) noexcept { return llminfer::core::bf16_to_f32(v); }
  static std::uint16_t round(double v) noexcept { return llminfer::core::f32_to_bf16(round_to_odd(v)); }
};

}  // namespace ptxsim
