// One thread a pair (and one each value behind the pairs): it finds sine and cosine once and turns the pair of every
// head. Angles need double: at position 100,000 a float's last bit is worth 0.008 radians. The few double operations
// are shared by all heads.
#include "kernels/rope.h"

namespace llminfer::cuda {
namespace {

constexpr int threads = 64;

/// Sine and cosine by reduction to [-pi/4, pi/4] and Taylor series; the rest is below 1e-13. The whole number of
/// quarter turns comes from adding 1.5 * 2^52, which rounds to it.
__device__ void sine_and_cosine(double angle, double& sine, double& cosine) {
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

__global__ void __launch_bounds__(threads) rope_kernel(RopeParams p) {
  const int i = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * p.heads * p.head_width;
  if (i >= p.head_width - p.pairs) return;
  if (i >= p.pairs) {  // behind the pairs
    for (int h = 0; h < p.heads; ++h) {
      const std::int64_t at = row + static_cast<std::int64_t>(h) * p.head_width + p.pairs + i;
      p.out[at] = p.in[at];
    }
    return;
  }
  double sine = 0, cosine = 0;
  sine_and_cosine(static_cast<double>(p.positions[blockIdx.y]) * static_cast<double>(p.inverse_frequency[i]), sine,
                  cosine);
  const float s = static_cast<float>(sine) * p.magnitude, c = static_cast<float>(cosine) * p.magnitude;
  const int x = p.adjacent ? 2 * i : i, y = p.adjacent ? 2 * i + 1 : i + p.pairs;
  for (int h = 0; h < p.heads; ++h) {
    const float* in = p.in + row + static_cast<std::int64_t>(h) * p.head_width;
    float* out = p.out + row + static_cast<std::int64_t>(h) * p.head_width;
    const float a = in[x], b = in[y];
    out[x] = a * c - b * s;
    out[y] = a * s + b * c;
  }
}

}  // namespace

cudaError_t launch(const RopeParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.rows > 65535 || 2 * p.pairs > p.head_width) return cudaErrorInvalidValue;
  const dim3 grid(blocks_for(p.head_width - p.pairs, threads), static_cast<unsigned>(p.rows));
  rope_kernel<<<grid, threads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
