// One thread unpacks 32 weights of one token's row. Reads the row's bytes once, writes 4 bytes a weight: bound by
// memory.
#include "kernels/embed.h"

#include "kernels/formats.cuh"

namespace llminfer::cuda {
namespace {

constexpr int threads = 64;

template <class Format>
__global__ void __launch_bounds__(threads) embed_kernel(EmbedParams p) {
  const int k = 32 * static_cast<int>(blockIdx.x * threads + threadIdx.x);
  if (k >= p.width) return;
  const int n = min(32, p.width - k);
  float w[32];
  Format::unpack(p.weight + p.tokens[blockIdx.y] * p.row_bytes, k, n, w);
  float* out = p.out + static_cast<std::int64_t>(blockIdx.y) * p.width + k;
  if (n == 32) {
#pragma unroll
    for (int i = 0; i < 32; ++i) out[i] = w[i] * p.scale;
    return;
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    if (i < n) out[i] = w[i] * p.scale;
  }
}

}  // namespace

cudaError_t launch(const EmbedParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.rows > 65535) return cudaErrorInvalidValue;
  const dim3 grid(blocks_for(p.width, 32 * threads), static_cast<unsigned>(p.rows));
  const bool known =
      with_format(p.type, [&](auto format) { embed_kernel<decltype(format)><<<grid, threads, 0, stream>>>(p); });
  return known ? cudaGetLastError() : cudaErrorInvalidValue;
}

}  // namespace llminfer::cuda
