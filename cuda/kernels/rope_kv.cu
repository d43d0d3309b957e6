// One warp a head of a token: first the heads of queries, then those of keys, then of values. The angles are found anew
// for each head, which costs less than a launch.
#include "kernels/rope_kv.h"

#include "kernels/rotate_head.cuh"

namespace llminfer::cuda {
namespace {

__global__ void __launch_bounds__(32) rope_kv_kernel(RopeKvParams p) {
  __shared__ float row[rope_kv_max_width];
  const int token = static_cast<int>(blockIdx.y), lane = static_cast<int>(threadIdx.x);
  int head = static_cast<int>(blockIdx.x);
  HeadKind kind = HeadKind::query;
  if (head >= p.queries.heads) {
    head -= p.queries.heads;
    kind = HeadKind::key;
    if (head >= p.cache.heads) {
      head -= p.cache.heads;
      kind = HeadKind::value;
    }
  }
  rotate_head(p, kind, token, head, lane, row);
}

}  // namespace

cudaError_t launch(const RopeKvParams& p, cudaStream_t stream) {
  const RopeParams& q = p.queries;
  if (q.rows == 0) return cudaSuccess;
  const bool fits = q.rows <= 65535 && 2 * q.pairs <= q.head_width && q.head_width <= rope_kv_max_width;
  const bool same = p.cache.in[1] != nullptr && p.cache.tokens == q.rows && p.cache.sides[0].width == q.head_width;
  if (!fits || !same || p.cache.sides[1].width > rope_kv_max_width) return cudaErrorInvalidValue;
  const dim3 grid(static_cast<unsigned>(q.heads + 2 * p.cache.heads), static_cast<unsigned>(q.rows));
  rope_kv_kernel<<<grid, 32, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
