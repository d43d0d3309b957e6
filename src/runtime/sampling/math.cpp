#include "runtime/sampling/math.h"

namespace llminfer::runtime {

namespace {

constexpr double ln2_high = 0x1.62e42fee00000p-1;  // 32 bits: times an exponent it is exact
constexpr double ln2_low = 0x1.a39ef35793c76p-33;

// 2^n for n in -1022 .. 1023.
double power_of_two(std::int64_t n) noexcept {
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

}  // namespace

double exp64(double x) noexcept {
  if (!(x >= -708.0)) return 0.0;
  if (x > 709.0) return std::numeric_limits<double>::infinity();
  const double scaled = x * log2_e;
  const auto n = static_cast<std::int64_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
  const double whole = static_cast<double>(n);
  const double r = (x - whole * ln2_high) - whole * ln2_low;  // |r| <= ln 2 / 2
  // Taylor to r^13: the rest is below 2^-57.
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  return p * power_of_two(n / 2) * power_of_two(n - n / 2);
}

double log64(double x) noexcept {
  if (!(x > 0)) return minus_infinity;
  if (x == std::numeric_limits<double>::infinity()) return x;
  std::int64_t exponent = 0;
  if (x < 0x1p-1022) {  // subnormal
    x *= 0x1p54;
    exponent = -54;
  }
  const auto bits = std::bit_cast<std::uint64_t>(x);
  exponent += static_cast<std::int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFu) | (std::uint64_t{1023} << 52));  // 1 .. 2
  if (m > 0x1.6a09e667f3bcdp+0) {                                                             // sqrt 2
    m *= 0.5;
    ++exponent;
  }
  // ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <= 0.172: terms up to s^21.
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 21.0;
  p = p * z + 1.0 / 19.0;
  p = p * z + 1.0 / 17.0;
  p = p * z + 1.0 / 15.0;
  p = p * z + 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  const double log_m = 2.0 * s + 2.0 * s * (z * p);
  const double whole = static_cast<double>(exponent);
  return whole * ln2_high + (whole * ln2_low + log_m);
}

double pow64(double x, double y) noexcept { return y == 0 ? 1.0 : exp64(y * log64(x)); }

double exp_sum(const float* x, std::size_t count, float max, float scale) noexcept {
  constexpr std::size_t chunk = 128;
  float e[chunk];
  double sum = 0;
  for (std::size_t first = 0; first < count; first += chunk) {
    const std::size_t n = count - first < chunk ? count - first : chunk;
    for (std::size_t i = 0; i < n; ++i) e[i] = bound_exponent((x[first + i] - max) * scale);
    for (std::size_t i = 0; i < n; ++i) e[i] = exp32_bounded(e[i]);
    for (std::size_t i = n; i % 8 != 0; ++i) e[i] = 0.0f;
    float lanes[8] = {};
    for (std::size_t i = 0; i < n; i += 8) {
      for (std::size_t lane = 0; lane < 8; ++lane) lanes[lane] += e[i + lane];
    }
    sum += ((static_cast<double>(lanes[0]) + lanes[1]) + (static_cast<double>(lanes[2]) + lanes[3])) +
           ((static_cast<double>(lanes[4]) + lanes[5]) + (static_cast<double>(lanes[6]) + lanes[7]));
  }
  return sum;
}

}  // namespace llminfer::runtime
