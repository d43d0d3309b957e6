#include "core/half.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "catch.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace llminfer::core;

namespace {

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

// What a binary16 means by its definition, in double.
double f16_by_definition(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

bool is_f16_nan(std::uint16_t half) { return (half & 0x7fff) > 0x7c00; }
bool is_bf16_nan(std::uint16_t bf16) { return (bf16 & 0x7fff) > 0x7f80; }

static_assert(f16_to_f32(0x3c00) == 1.0f);
static_assert(f32_to_f16(-2.0f) == 0xc000);
static_assert(f32_to_bf16(bf16_to_f32(0x3f81)) == 0x3f81);

// Checks that x rounds to `low` below the middle of two neighbours, to `high` above it, to the even one at it.
template <class Round>
bool rounds_at_middle(float middle, std::uint16_t low, std::uint16_t high, Round round) {
  const float before = std::nextafter(middle, 0.0f);
  const float after = std::nextafter(middle, std::numeric_limits<float>::infinity());
  return round(before) == low && round(after) == high && round(middle) == ((low & 1) == 0 ? low : high) &&
         round(-middle) == (((low & 1) == 0 ? low : high) | 0x8000);
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) std::uint32_t hardware_f16_to_f32_bits(std::uint16_t half) {
  const __m128 value = _mm_cvtph_ps(_mm_cvtsi32_si128(half));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_castps_si128(value)));
}
__attribute__((target("f16c"))) std::uint16_t hardware_f32_bits_to_f16(std::uint32_t bits) {
  const __m128 value = _mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(bits)));
  return static_cast<std::uint16_t>(_mm_extract_epi16(_mm_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT), 0));
}
#endif

}  // namespace

TEST_CASE("every f16 widens to the value that its bits define, and comes back") {
  int wrong_value = 0, wrong_back = 0;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    const float value = f16_to_f32(half);
    if (is_f16_nan(half)) {
      wrong_value += std::isnan(value) && (bits_of(value) >> 31) == (i >> 15) ? 0 : 1;
      wrong_back += f32_to_f16(value) == (half | 0x0200) ? 0 : 1;
    } else {
      wrong_value += value == f16_by_definition(half) && std::signbit(value) == (i >= 0x8000) ? 0 : 1;
      wrong_back += f32_to_f16(value) == half ? 0 : 1;
    }
  }
  CHECK(wrong_value == 0);
  CHECK(wrong_back == 0);
}

TEST_CASE("f16 rounding between every two neighbours") {
  int wrong = 0;
  for (std::uint16_t low = 0; low < 0x7bff; ++low) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    const auto middle = static_cast<float>((f16_by_definition(low) + f16_by_definition(high)) / 2);
    wrong += rounds_at_middle(middle, low, high, f32_to_f16) ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(rounds_at_middle(65520.0f, 0x7bff, 0x7c00, f32_to_f16));
  CHECK(f32_to_f16(std::numeric_limits<float>::max()) == 0x7c00);
  CHECK(f32_to_f16(-std::numeric_limits<float>::infinity()) == 0xfc00);
  CHECK(f32_to_f16(std::numeric_limits<float>::denorm_min()) == 0);
  CHECK(f32_to_f16(-0.0f) == 0x8000);
}

TEST_CASE("every bf16 widens exactly and comes back; rounding between neighbours") {
  int wrong_back = 0, wrong_round = 0;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bf16 = static_cast<std::uint16_t>(i);
    const float value = bf16_to_f32(bf16);
    if (bits_of(value) != i << 16) ++wrong_back;
    if (f32_to_bf16(value) != (is_bf16_nan(bf16) ? bf16 | 0x40 : bf16)) ++wrong_back;
  }
  for (std::uint16_t low = 0; low < 0x7f80; ++low) {
    const float middle = std::bit_cast<float>((static_cast<std::uint32_t>(low) << 16) | 0x8000u);
    wrong_round += rounds_at_middle(middle, low, static_cast<std::uint16_t>(low + 1), f32_to_bf16) ? 0 : 1;
  }
  CHECK(wrong_back == 0);
  CHECK(wrong_round == 0);
  CHECK(f32_to_bf16(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(f32_to_bf16(std::bit_cast<float>(0xff800001u)) == 0xffc0);  // a signalling NaN must not become infinity
}

#if defined(__x86_64__)
TEST_CASE("f16 conversions equal the processor's, NaNs included") {
  if (!__builtin_cpu_supports("avx2")) {  // clang 14 cannot ask for f16c; every processor with AVX2 has it
    WARN("this processor has no AVX2, perhaps no F16C: nothing to compare with");
    return;
  }
  int wrong_widen = 0, wrong_narrow = 0;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    wrong_widen += bits_of(f16_to_f32(half)) == hardware_f16_to_f32_bits(half) ? 0 : 1;
  }
  // A stride that is coprime to 2^32 visits all exponents and many mantissas.
  std::uint32_t bits = 0;
  for (int i = 0; i < 2000000; ++i, bits += 2147481u) {
    wrong_narrow += f32_to_f16(std::bit_cast<float>(bits)) == hardware_f32_bits_to_f16(bits) ? 0 : 1;
  }
  CHECK(wrong_widen == 0);
  CHECK(wrong_narrow == 0);
}
#endif
