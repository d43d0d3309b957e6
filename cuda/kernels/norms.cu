// One block a group: the values pass twice (three times where the mean is taken off), the second time from cache. Sums
// are in float, in a fixed order: lane, warp, block.
#include "kernels/norms.h"

#include "kernels/numbers.cuh"

namespace llminfer::cuda {
namespace {

constexpr int threads = 128;

/// The sum over the block, for all its threads. `room`: one float a warp.
__device__ float block_sum(float v, float* room) {
  v = warp_sum(v);
  __syncthreads();  // the room may still be read
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = v;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < threads / 32; ++w) sum += room[w];
  return sum;
}

__global__ void __launch_bounds__(threads) norm_kernel(NormParams p) {
  __shared__ float room[threads / 32];
  const float* in = p.in + static_cast<std::int64_t>(blockIdx.x) * p.group;
  float* out = p.out + static_cast<std::int64_t>(blockIdx.x) * p.group;
  float mean = 0;
  if (p.centred) {
    float sum = 0;
    for (int i = static_cast<int>(threadIdx.x); i < p.group; i += threads) sum += in[i];
    mean = block_sum(sum, room) / static_cast<float>(p.group);
  }
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x); i < p.group; i += threads) {
    const float v = in[i] - mean;
    squares += v * v;
  }
  const float scale = 1.0F / sqrtf(block_sum(squares, room) / static_cast<float>(p.group) + p.eps);
  for (int i = static_cast<int>(threadIdx.x); i < p.group; i += threads) {
    const float bias = p.bias != nullptr ? p.bias[i] : 0.0F;
    out[i] = (in[i] - mean) * scale * p.weight[i] + bias;
  }
}

}  // namespace

cudaError_t launch(const NormParams& p, cudaStream_t stream) {
  if (p.groups == 0) return cudaSuccess;
  if (p.groups > 0x7fffffff) return cudaErrorInvalidValue;
  norm_kernel<<<static_cast<unsigned>(p.groups), threads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
