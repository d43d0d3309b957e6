#include "device/cpu/angles.h"

#include <bit>

namespace llminfer::cpu {
namespace {

constexpr double two_over_pi = 0.63661977236758134308;
// pi / 2 in two parts; the first has 33 bits, so that its product with a whole number below 2^20 is exact.
constexpr double half_pi_high = 1.57079632673412561417;
constexpr double half_pi_low = 6.07710050650619224932e-11;
constexpr double rounder = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to a whole number

/// Taylor series on [-pi/4, pi/4]: the rest is below 1e-13.
double sine_near_zero(double r) noexcept {
  const double s = r * r;
  double p = 1.0 / 6227020800.0;
  p = p * s - 1.0 / 39916800.0;
  p = p * s + 1.0 / 362880.0;
  p = p * s - 1.0 / 5040.0;
  p = p * s + 1.0 / 120.0;
  p = p * s - 1.0 / 6.0;
  return r + r * s * p;
}

double cosine_near_zero(double r) noexcept {
  const double s = r * r;
  double p = -1.0 / 87178291200.0;
  p = p * s + 1.0 / 479001600.0;
  p = p * s - 1.0 / 3628800.0;
  p = p * s + 1.0 / 40320.0;
  p = p * s - 1.0 / 720.0;
  p = p * s + 1.0 / 24.0;
  p = p * s - 0.5;
  return 1.0 + s * p;
}

}  // namespace

void rope_angles(std::int32_t position, std::span<const float> inverse_frequency, float magnitude, float* cosine,
                 float* sine) noexcept {
  for (std::size_t i = 0; i < inverse_frequency.size(); ++i) {
    const double angle = static_cast<double>(position) * static_cast<double>(inverse_frequency[i]);
    const double shifted = angle * two_over_pi + rounder;
    const double whole = shifted - rounder;
    const double r = (angle - whole * half_pi_high) - whole * half_pi_low;
    const std::uint64_t quadrant = std::bit_cast<std::uint64_t>(shifted) & 3U;
    const double s = sine_near_zero(r), c = cosine_near_zero(r);
    const double sin_value = (quadrant & 1U) != 0 ? c : s, cos_value = (quadrant & 1U) != 0 ? s : c;
    const double sin_sign = quadrant >= 2 ? -1.0 : 1.0, cos_sign = quadrant == 1 || quadrant == 2 ? -1.0 : 1.0;
    cosine[i] = static_cast<float>(cos_sign * cos_value) * magnitude;
    sine[i] = static_cast<float>(sin_sign * sin_value) * magnitude;
  }
}

}  // namespace llminfer::cpu
