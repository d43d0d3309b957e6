// One thread a row of weights and `Tile` rows of input: it unpacks 32 weights at a time and multiplies each input row
// by them. All lanes read the same inputs; weights are read without any thought of coalescing. Sums run along k in
// order.
#include "kernels/matmul_plain.h"

#include "kernels/formats.cuh"

namespace llminfer::cuda {
namespace {

constexpr int threads = 64;

template <class Format, int Tile>
__global__ void __launch_bounds__(threads) matmul_plain_kernel(MatMulPlainParams p) {
  const int j = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  if (j >= p.columns_out) return;
  const int first = static_cast<int>(blockIdx.y) * Tile;
  std::int64_t matrix = 0;
  if (p.route != nullptr) {
    const int token = first / p.used;
    matrix = static_cast<std::int64_t>(p.route[token * 2 * p.used + first % p.used]) * p.columns_out;
  }
  const std::uint8_t* weights = p.weight + (matrix + j) * p.row_bytes;
  const float* in[Tile];
#pragma unroll
  for (int r = 0; r < Tile; ++r) {
    const int row = min(first + r, p.rows - 1);
    in[r] = p.in + static_cast<std::int64_t>(p.in_per_token ? row / p.used : row) * p.columns_in;
  }
  float sum[Tile] = {};
  for (int k = 0; k < p.columns_in; k += 32) {
    const int n = min(32, p.columns_in - k);
    float w[32];
    Format::unpack(weights, k, n, w);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (!may_be_partial<Format> || i < n) {
#pragma unroll
        for (int r = 0; r < Tile; ++r) sum[r] += w[i] * in[r][k + i];
      }
    }
  }
  const float bias = p.bias != nullptr ? p.bias[matrix + j] : 0.0F;
#pragma unroll
  for (int r = 0; r < Tile; ++r) {
    if (first + r < p.rows) p.out[static_cast<std::int64_t>(first + r) * p.columns_out + j] = sum[r] + bias;
  }
}

}  // namespace

cudaError_t launch(const MatMulPlainParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  constexpr int tile = 8;
  const bool one = p.route != nullptr || p.rows == 1;
  const unsigned rows = blocks_for(p.rows, one ? 1 : tile);
  if (rows > 65535) return cudaErrorInvalidValue;
  const dim3 grid(blocks_for(p.columns_out, threads), rows);
  const bool known = with_format(p.type, [&](auto format) {
    using Format = decltype(format);
    if (one) {
      matmul_plain_kernel<Format, 1><<<grid, threads, 0, stream>>>(p);
    } else {
      matmul_plain_kernel<Format, tile><<<grid, threads, 0, stream>>>(p);
    }
  });
  return known ? cudaGetLastError() : cudaErrorInvalidValue;
}

}  // namespace llminfer::cuda
