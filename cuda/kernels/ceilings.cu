// Streams: a thread has four loads of 16 bytes under way, neighbouring threads neighbouring pieces. Tensor
// instructions: eight chains a warp that do not wait for each other.
#include "kernels/ceilings.h"

namespace llminfer::cuda {
namespace {

constexpr int threads = 256, in_flight = 4, chains = 8;

template <bool write>
__global__ void __launch_bounds__(threads) stream_kernel(StreamParams p) {
  const auto* in = static_cast<const uint4*>(p.in);
  auto* out = static_cast<uint4*>(p.out);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * threads;
  uint4 seen{0, 0, 0, 0};
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  for (; i < p.count; i += in_flight * step) {
    uint4 v[in_flight];
#pragma unroll
    for (int n = 0; n < in_flight; ++n) v[n] = i + n * step < p.count ? in[i + n * step] : uint4{0, 0, 0, 0};
#pragma unroll
    for (int n = 0; n < in_flight; ++n) {
      if constexpr (write) {
        if (i + n * step < p.count) out[i + n * step] = v[n];
      } else {
        seen = uint4{seen.x | v[n].x, seen.y | v[n].y, seen.z | v[n].z, seen.w | v[n].w};
      }
    }
  }
  // Never true, which the compiler cannot know: so the loads stay.
  if constexpr (!write) {
    if ((seen.x | seen.y | seen.z | seen.w) != 0) *static_cast<uint4*>(p.sink) = seen;
  }
}

__global__ void __launch_bounds__(threads) tensor_kernel(TensorParams p) {
  float d[chains][4] = {};
  const unsigned one = 0x3f803f80U, a = one ^ (threadIdx.x & 1U);
  for (int r = 0; r < p.rounds; ++r) {
#pragma unroll
    for (int c = 0; c < chains; ++c) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3};"
          : "+f"(d[c][0]), "+f"(d[c][1]), "+f"(d[c][2]), "+f"(d[c][3])
          : "r"(a), "r"(one));
    }
  }
  float sum = 0;
#pragma unroll
  for (int c = 0; c < chains; ++c) sum += d[c][0] + d[c][1] + d[c][2] + d[c][3];
  p.out[static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x] = sum;
}

}  // namespace

cudaError_t launch(const StreamParams& p, cudaStream_t stream) {
  if (p.count == 0) return cudaSuccess;
  if (p.blocks < 1) return cudaErrorInvalidValue;
  const auto blocks = static_cast<unsigned>(p.blocks);
  if (p.out != nullptr) {
    stream_kernel<true><<<blocks, threads, 0, stream>>>(p);
  } else {
    stream_kernel<false><<<blocks, threads, 0, stream>>>(p);
  }
  return cudaGetLastError();
}

cudaError_t launch(const TensorParams& p, cudaStream_t stream) {
  if (p.blocks < 1 || p.rounds < 1) return cudaErrorInvalidValue;
  tensor_kernel<<<static_cast<unsigned>(p.blocks), threads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
