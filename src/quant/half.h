// The 16-bit conversions of core under the names that code over blocks uses.
#pragma once

#include "core/half.h"

namespace llminfer::quant {

constexpr float half_to_float(std::uint16_t half) noexcept { return core::f16_to_f32(half); }
constexpr std::uint16_t float_to_half(float value) noexcept { return core::f32_to_f16(value); }
constexpr float bf16_to_float(std::uint16_t bf16) noexcept { return core::bf16_to_f32(bf16); }
constexpr std::uint16_t float_to_bf16(float value) noexcept { return core::f32_to_bf16(value); }

}  // namespace llminfer::quant
