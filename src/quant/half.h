// 16-bit floating point numbers to float32 and back, exact on every machine: rounding to nearest even, subnormals kept,
// a NaN stays a quiet NaN with the upper bits of its payload (what F16C and Arm's conversions do).
#pragma once

#include <bit>
#include <cstdint>

namespace llminfer::quant {

/// IEEE binary16 bits (1 sign, 5 exponent, 10 fraction bits) as float32; always exact.
inline float half_to_float(std::uint16_t half) noexcept {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: a count of 2^-24, a normal number in float32
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f);
    return std::bit_cast<float>(sign | magnitude);
  }
  if (exponent == 31) {
    const std::uint32_t quiet = fraction != 0 ? 0x00400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13) | quiet);
  }
  return std::bit_cast<float>(sign | ((exponent + 127 - 15) << 23) | (fraction << 13));
}

/// The nearest binary16, ties to even; magnitudes from 65520 on become infinity.
inline std::uint16_t float_to_half(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520: halfway between the largest finite half and 2^16
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: one unit of 0.5 is 2^-24, so this sum rounds to subnormal steps
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<std::uint32_t>(0.5f);
  } else {
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    half = (rounded - ((127u - 15u) << 23)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

/// bfloat16 bits (the upper half of a float32) as float32; always exact.
inline float bf16_to_float(std::uint16_t bf16) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bf16) << 16);
}

/// The nearest bfloat16, ties to even.
inline std::uint16_t float_to_bf16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace llminfer::quant
