// One warp a head of a token: first the heads of queries, then those of keys, then of values. The angles are found anew
// for each head, which costs less than a launch.
#include "kernels/rope_kv.h"

#include "kernels/kv_store.cuh"
#include "kernels/norm_order.cuh"
#include "kernels/rotation.cuh"

namespace llminfer::cuda {
namespace {

/// One head's row, to where `out` says: may be where it came from.
__device__ void rotate(const RopeParams& p, int position, int lane, const float* in, float* out) {
  for (int i = lane; i < p.pairs; i += 32) {
    double sine = 0, cosine = 0;
    sine_and_cosine(static_cast<double>(position) * static_cast<double>(p.inverse_frequency[i]), sine, cosine);
    const float s = static_cast<float>(sine) * p.magnitude, c = static_cast<float>(cosine) * p.magnitude;
    const int x = p.adjacent ? 2 * i : i, y = p.adjacent ? 2 * i + 1 : i + p.pairs;
    const Turned t = turned(in[x], in[y], s, c);
    out[x] = t.x;
    out[y] = t.y;
  }
  for (int i = 2 * p.pairs + lane; i < p.head_width; i += 32) out[i] = in[i];
}

/// The norm of one head's row.
__device__ void norm_head(const float* in, const float* weight, float eps, int width, int lane, float* out) {
  float squares[norm_parts] = {};
#pragma unroll 1
  for (int k = lane; k < width; k += 32 * norm_parts) {
#pragma unroll
    for (int w = 0; w < norm_parts; ++w) {
      const float v = k + 32 * w < width ? in[k + 32 * w] : 0.0F;
      squares[w] = fmaf(v, v, squares[w]);
    }
  }
#pragma unroll
  for (float& part : squares) part = warp_sum(part);
  const float scale = norm_scale(squares, width, eps);
  for (int k = lane; k < width; k += 32) out[k] = normed(in[k], scale, weight[k]);
}

__global__ void __launch_bounds__(32) rope_kv_kernel(RopeKvParams p) {
  __shared__ float row[rope_kv_max_width];
  const int token = static_cast<int>(blockIdx.y), lane = static_cast<int>(threadIdx.x);
  const int position = p.cache.step.positions[token];
  int head = static_cast<int>(blockIdx.x);
  const bool query = head < p.queries.heads;
  if (!query) {
    if (position < 0) return;
    head -= p.queries.heads;
  }
  const bool values = !query && head >= p.cache.heads;
  if (values) head -= p.cache.heads;
  const float* in = query ? p.queries.in : values ? p.cache.in[1] : p.cache.in[0];
  const int heads = query ? p.queries.heads : p.cache.heads;
  const int width = values ? p.cache.sides[1].width : p.queries.head_width;
  const std::int64_t at = (static_cast<std::int64_t>(token) * heads + head) * width;
  in += at;
  const float* norm = query ? p.query_norm : values ? nullptr : p.key_norm;
  if (norm != nullptr) {
    norm_head(in, norm, p.eps, width, lane, row);
    __syncwarp();
    in = row;
  }
  if (!values) rotate(p.queries, position, lane, in, query ? p.queries.out + at : row);
  if (query) return;
  __syncwarp();
  if (!values) in = row;
  const KvSide side = values ? p.cache.sides[1] : p.cache.sides[0];
  const std::int32_t* pages = p.cache.step.pages + p.cache.step.pages_at[p.cache.step.sequence_of[token]];
  std::uint8_t* block = kv_block(side, pages, position, head);
  store_row(side.type, block, width, position % kv_page, lane, [in](int i) { return in[i]; });
}

}  // namespace

cudaError_t launch(const RopeKvParams& p, cudaStream_t stream) {
  const RopeParams& q = p.queries;
  if (q.rows == 0) return cudaSuccess;
  const bool fits = q.rows <= 65535 && 2 * q.pairs <= q.head_width && q.head_width <= rope_kv_max_width;
  const bool same = p.cache.in[1] != nullptr && p.cache.tokens == q.rows && p.cache.sides[0].width == q.head_width;
  if (!fits || !same) return cudaErrorInvalidValue;
  const dim3 grid(static_cast<unsigned>(q.heads + 2 * p.cache.heads), static_cast<unsigned>(q.rows));
  rope_kv_kernel<<<grid, 32, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
