// route: one warp a row. The last one sorts all rows by their experts. combine: one thread a value.
#include "kernels/experts.h"

#include "kernels/arrival.cuh"
#include "kernels/combine.cuh"
#include "kernels/fragments.cuh"
#include "kernels/route.cuh"

namespace llminfer::cuda {
namespace {

constexpr int threads = 128;

__global__ void __launch_bounds__(32) route_kernel(RouteParams p) {
  __shared__ float logits[route_experts_near];
  __shared__ int next[most_experts_sorted];
  const int lane = static_cast<int>(threadIdx.x);
  route_row(p, static_cast<int>(blockIdx.x), lane, logits);
  if (p.sorted.tiles != nullptr && arrives_last(p.arrivals, gridDim.x)) sort_by_expert(p, lane, next);
}

__global__ void __launch_bounds__(threads, 1) combine_kernel(CombineParams p) {
  __shared__ FragmentsRoom room;
  const int i = static_cast<int>(blockIdx.x * threads + threadIdx.x), row = static_cast<int>(blockIdx.y);
  if (i < p.width) combine_value(p, row, i);
  if (p.next.in == nullptr) return;
  const int tile = row / 8;
  if (!arrives_last(p.arrivals + tile, gridDim.x * static_cast<unsigned>(min(8, p.rows - 8 * tile)))) return;
  make_fragments<threads / 32>(p.next, tile, room);
}

}  // namespace

cudaError_t launch(const RouteParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.sorted.tiles != nullptr && p.experts > most_experts_sorted) return cudaErrorInvalidValue;
  route_kernel<<<static_cast<unsigned>(p.rows), 32, 0, stream>>>(p);
  return cudaGetLastError();
}

cudaError_t launch(const CombineParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.rows > 65535) return cudaErrorInvalidValue;
  combine_kernel<<<dim3(blocks_for(p.width, threads), static_cast<unsigned>(p.rows)), threads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
