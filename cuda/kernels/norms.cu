// One block a group: the values pass twice (three times where the mean is taken off), the second time from cache.
#include "kernels/norms.h"

#include "kernels/norm_add.cuh"

namespace llminfer::cuda {
namespace {

constexpr int threads = 32 * norm_parts;

/// Sums of a value over the warps of the block, for all its threads. `room`: one float a warp.
__device__ void warp_sums(float v, float (&room)[norm_parts]) {
  v = warp_sum(v);
  __syncthreads();  // the room may still be read
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = v;
  __syncthreads();
}

__global__ void __launch_bounds__(threads) norm_kernel(NormParams p) {
  __shared__ float room[norm_parts];
  const float* in = p.in + static_cast<std::int64_t>(blockIdx.x) * p.group;
  float* out = p.out + static_cast<std::int64_t>(blockIdx.x) * p.group;
  float mean = 0;
  if (p.centred) {
    float sum = 0;
    for (int i = static_cast<int>(threadIdx.x); i < p.group; i += threads) sum += in[i];
    warp_sums(sum, room);
    mean = (((room[0] + room[1]) + room[2]) + room[3]) / static_cast<float>(p.group);
  }
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x); i < p.group; i += threads) {
    const float v = in[i] - mean;
    squares = fmaf(v, v, squares);
  }
  warp_sums(squares, room);
  const float scale = norm_scale(room, p.group, p.eps);
  for (int i = static_cast<int>(threadIdx.x); i < p.group; i += threads) {
    const float v = normed(in[i] - mean, scale, p.weight[i]);
    out[i] = p.bias != nullptr ? v + p.bias[i] : v;
  }
}

__global__ void __launch_bounds__(threads) norm_add_kernel(NormAddParams p) {
  __shared__ NormAddRoom room;
  norm_and_add<threads / 32>(p, static_cast<int>(blockIdx.x), 1, room);
}

}  // namespace

cudaError_t launch(const NormParams& p, cudaStream_t stream) {
  if (p.groups == 0) return cudaSuccess;
  if (p.groups > 0x7fffffff) return cudaErrorInvalidValue;
  norm_kernel<<<static_cast<unsigned>(p.groups), threads, 0, stream>>>(p);
  return cudaGetLastError();
}

cudaError_t launch(const NormAddParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.columns % 4 != 0) return cudaErrorInvalidValue;
  norm_add_kernel<<<static_cast<unsigned>(p.rows), threads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
