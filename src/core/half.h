// The two 16-bit float formats of model files, as scalars. Kernels have their own vector versions; these are the truth
// that those are tested against. Bits travel as uint16_t: there is no arithmetic on 16-bit floats here.
#pragma once

#include <bit>
#include <cstdint>

namespace llminfer::core {

/// IEEE binary16 to float, exact. A NaN keeps its sign and payload and becomes quiet, as vcvtph2ps makes it.
constexpr float f16_to_f32(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) {
    const std::uint32_t quiet = mantissa != 0 ? 0x00400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (mantissa << 13));
  }
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, which a float holds exactly
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));  // 112 = 127 - 15, the two biases
}

/// Float to IEEE binary16, to nearest, ties to even: 65520 and more become infinity, 2^-25 and less become zero, the
/// sign stays. A NaN becomes quiet and keeps its sign and the top of its payload, as vcvtps2ph makes it.
constexpr std::uint16_t f32_to_f16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65520, half way past the largest
  if (magnitude >= 0x38800000u) {                                                   // 2^-14, the smallest normal half
    const std::uint32_t rebiased = magnitude - (112u << 23);
    const std::uint32_t odd = (rebiased >> 13) & 1u;
    return static_cast<std::uint16_t>(sign | ((rebiased + 0xfffu + odd) >> 13));
  }
  if (magnitude <= 0x33000000u) return static_cast<std::uint16_t>(sign);  // 2^-25: ties to even zero
  // Subnormal: the result counts units of 2^-24.
  const std::uint32_t shift = 126u - (magnitude >> 23);
  const std::uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const std::uint32_t units = mantissa >> shift;
  const std::uint32_t rest = mantissa & ((1u << shift) - 1u);
  const std::uint32_t half_way = 1u << (shift - 1u);
  const bool up = rest > half_way || (rest == half_way && (units & 1u) != 0);
  return static_cast<std::uint16_t>(sign | (units + (up ? 1u : 0u)));
}

/// bfloat16 to float, exact: the bits move up, a NaN stays as it is.
constexpr float bf16_to_f32(std::uint16_t bf16) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bf16) << 16);
}

/// Float to bfloat16, to nearest, ties to even; subnormals are kept. A NaN becomes quiet and keeps its sign and the top
/// of its payload.
constexpr std::uint16_t f32_to_bf16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  const std::uint32_t odd = (bits >> 16) & 1u;
  return static_cast<std::uint16_t>((bits + 0x7fffu + odd) >> 16);
}

}  // namespace llminfer::core
