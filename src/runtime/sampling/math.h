// Exponential and logarithm from IEEE additions, multiplications and divisions alone: the same bits on every platform,
// which libm does not promise. The draw depends on them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace llminfer::runtime {

inline constexpr double ln2 = 0x1.62e42fefa39efp-1;
inline constexpr double log2_e = 0x1.71547652b82fep+0;
inline constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

/// e^x within 2 units in the last place; 0 below -708, +inf above 709.
double exp64(double x) noexcept;

/// Natural logarithm within 2 units in the last place, for x >= 0; -inf at 0.
double log64(double x) noexcept;

/// x^y for x >= 0 as exp64(y * log64(x)); 1 where y is 0.
double pow64(double x, double y) noexcept;

/// e^x for -88 <= x <= 0 with a relative error of about 1e-7; exactly 0 below -87.7. Without a branch, so that loops
/// over it become vector code.
inline float exp32_bounded(float x) noexcept {
  const auto n = static_cast<std::int32_t>(x * 1.44269504f - 0.5f);  // truncation rounds: the argument is < 0
  const auto whole = static_cast<float>(n);
  const float r = (x - whole * 0.693145752f) - whole * 1.42860677e-6f;  // ln 2 in two parts
  float p = 1.98412698e-4f;                                             // 1/7!
  p = p * r + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return p * std::bit_cast<float>((n + 127) << 23);  // 2^n; n = -127 gives the bits of 0
}

/// x within exp32_bounded's range: -inf becomes -88.
inline float bound_exponent(float x) noexcept { return x > -88.0f ? x : -88.0f; }

/// e^x for any x <= 0, -inf included.
inline float exp32(float x) noexcept { return exp32_bounded(bound_exponent(x)); }

/// Sum of exp32((x[i] - max) * scale): eight lanes of floats, added pairwise.
double exp_sum(const float* x, std::size_t count, float max, float scale) noexcept;

}  // namespace llminfer::runtime
