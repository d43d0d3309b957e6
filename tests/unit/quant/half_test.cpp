#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "catch.h"
#include "quant/half.h"

using namespace llminfer::quant;

namespace {
constexpr float infinity = std::numeric_limits<float>::infinity();

// The value by the definition of binary16, in double.
double half_value(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
}  // namespace

TEST_CASE("every finite half has its value in float32 and comes back") {
  unsigned wrong = 0;
  for (unsigned half = 0; half < 0x10000; ++half) {
    if ((half & 0x7c00) == 0x7c00) continue;
    const auto bits = static_cast<std::uint16_t>(half);
    const float value = half_to_float(bits);
    const bool sign = std::signbit(value) == ((half & 0x8000) != 0);
    if (static_cast<double>(value) != half_value(bits) || !sign || float_to_half(value) != bits) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("halves: infinity, and NaN made quiet with its payload") {
  CHECK(half_to_float(0x7c00) == infinity);
  CHECK(half_to_float(0xfc00) == -infinity);
  CHECK(bits_of(half_to_float(0x7e00)) == 0x7fc00000u);
  CHECK(bits_of(half_to_float(0xfc01)) == 0xffc02000u);
  CHECK(float_to_half(infinity) == 0x7c00);
  CHECK(float_to_half(-infinity) == 0xfc00);
  CHECK(float_to_half(std::bit_cast<float>(0x7fc00000u)) == 0x7e00);
  CHECK(float_to_half(std::bit_cast<float>(0xff800001u)) == 0xfe00);
  CHECK(float_to_half(std::bit_cast<float>(0x7fa02000u)) == 0x7f01);
}

TEST_CASE("float32 to half rounds to nearest, ties to even, at every boundary") {
  unsigned wrong = 0;
  for (unsigned half = 0; half < 0x7c00; ++half) {
    const float low = half_to_float(static_cast<std::uint16_t>(half));
    const float high = half + 1 == 0x7c00 ? 65536.0f : half_to_float(static_cast<std::uint16_t>(half + 1));
    const float middle = (low + high) / 2;  // exact: 12 bits of fraction
    const unsigned even = half % 2 == 0 ? half : half + 1;
    if (float_to_half(middle) != even) ++wrong;
    if (float_to_half(std::nextafter(middle, 0.0f)) != half) ++wrong;
    if (float_to_half(std::nextafter(middle, infinity)) != half + 1) ++wrong;
    if (float_to_half(-middle) != (even | 0x8000)) ++wrong;
  }
  CHECK(wrong == 0);
  CHECK(float_to_half(std::numeric_limits<float>::denorm_min()) == 0);
  CHECK(float_to_half(-std::numeric_limits<float>::min()) == 0x8000);
  CHECK(float_to_half(std::numeric_limits<float>::max()) == 0x7c00);
}

TEST_CASE("bfloat16 is the upper half of float32, rounded to nearest even") {
  unsigned wrong = 0;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto bf16 = static_cast<std::uint16_t>(bits);
    const float value = bf16_to_float(bf16);
    if (bits_of(value) != bits << 16) ++wrong;
    if (!std::isnan(value) && float_to_bf16(value) != bf16) ++wrong;
    if ((bits & 0x7f80) == 0x7f80) continue;
    const unsigned even = bits % 2 == 0 ? bits : bits + 1;  // a carry goes to the next exponent, at the end to infinity
    if (float_to_bf16(std::bit_cast<float>((bits << 16) + 0x8000u)) != even) ++wrong;
    if (float_to_bf16(std::bit_cast<float>((bits << 16) + 0x7fffu)) != bits) ++wrong;
    if (float_to_bf16(std::bit_cast<float>((bits << 16) + 0x8001u)) != bits + 1) ++wrong;
  }
  CHECK(wrong == 0);
  CHECK(float_to_bf16(std::bit_cast<float>(0x7f800001u)) == 0x7fc0);
  CHECK(float_to_bf16(std::bit_cast<float>(0xffffffffu)) == 0xffff);
}
