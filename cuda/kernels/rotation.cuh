// Angles of rotary position embedding.
#pragma once

namespace llminfer::cuda {

/// Sine and cosine by reduction to [-pi/4, pi/4] and Taylor series; the rest is below 1e-13. The whole number of
/// quarter turns comes from adding 1.5 * 2^52, which rounds to it.
__device__ inline void sine_and_cosine(double angle, double& sine, double& cosine) {
  const double rounder = 6755399441055744.0;
  const double shifted = angle * 0.63661977236758134308 + rounder;
  const double whole = shifted - rounder;
  const double r = (angle - whole * 1.57079632673412561417) - whole * 6.07710050650619224932e-11;
  const double s = r * r;
  double p = 1.0 / 6227020800.0;
  p = p * s - 1.0 / 39916800.0;
  p = p * s + 1.0 / 362880.0;
  p = p * s - 1.0 / 5040.0;
  p = p * s + 1.0 / 120.0;
  p = p * s - 1.0 / 6.0;
  const double near_sine = r + r * s * p;
  p = -1.0 / 87178291200.0;
  p = p * s + 1.0 / 479001600.0;
  p = p * s - 1.0 / 3628800.0;
  p = p * s + 1.0 / 40320.0;
  p = p * s - 1.0 / 720.0;
  p = p * s + 1.0 / 24.0;
  const double near_cosine = 1.0 + s * (p * s - 0.5);
  const int quadrant = static_cast<int>(__double_as_longlong(shifted) & 3);
  sine = (quadrant & 1) != 0 ? near_cosine : near_sine;
  cosine = (quadrant & 1) != 0 ? near_sine : near_cosine;
  if (quadrant >= 2) sine = -sine;
  if (quadrant == 1 || quadrant == 2) cosine = -cosine;
}

/// A pair of values after a turn.
struct Turned {
  float x, y;
};
/// By sine and cosine; no kernel rounds otherwise.
__device__ inline Turned turned(float a, float b, float s, float c) {
  return {fmaf(a, c, -__fmul_rn(b, s)), fmaf(a, s, __fmul_rn(b, c))};
}

}  // namespace llminfer::cuda
