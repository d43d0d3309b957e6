// One thread a pair (and one each value behind the pairs): it finds sine and cosine once and turns the pair of every
// head. Angles need double: at position 100,000 a float's last bit is worth 0.008 radians. The few double operations
// are shared by all heads.
#include "kernels/rope.h"

#include "kernels/rotation.cuh"

namespace llminfer::cuda {
namespace {

constexpr int threads = 64;

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
    const Turned t = turned(in[x], in[y], s, c);
    out[x] = t.x;
    out[y] = t.y;
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
