// One warp a head of a token: first the heads of queries, then those of keys, then of values. The angles are found anew
// for each head, which costs less than a launch.
#include "kernels/rope_kv.h"

#include "kernels/kv_store.cuh"
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
    const float a = in[x], b = in[y];
    out[x] = a * c - b * s;
    out[y] = a * s + b * c;
  }
  for (int i = 2 * p.pairs + lane; i < p.head_width; i += 32) out[i] = in[i];
}

template <KvType Type>
__global__ void __launch_bounds__(32) rope_kv_kernel(RopeKvParams p) {
  __shared__ float turned[rope_kv_max_width];
  const int token = static_cast<int>(blockIdx.y), lane = static_cast<int>(threadIdx.x);
  const int position = p.cache.step.positions[token];
  int head = static_cast<int>(blockIdx.x);
  if (head < p.queries.heads) {
    const std::int64_t at = (static_cast<std::int64_t>(token) * p.queries.heads + head) * p.queries.head_width;
    rotate(p.queries, position, lane, p.queries.in + at, p.queries.out + at);
    return;
  }
  if (position < 0) return;
  head -= p.queries.heads;
  const bool values = head >= p.cache.heads;
  if (values) head -= p.cache.heads;
  const KvSide side = values ? p.cache.sides[1] : p.cache.sides[0];
  const int width = side.width;
  const float* in =
      (values ? p.cache.in[1] : p.cache.in[0]) + (static_cast<std::int64_t>(token) * p.cache.heads + head) * width;
  if (!values) {
    rotate(p.queries, position, lane, in, turned);
    __syncwarp();
  }
  const std::int32_t* pages = p.cache.step.pages + p.cache.step.pages_at[p.cache.step.sequence_of[token]];
  std::uint8_t* block = kv_block(side, pages, position, head);
  for (int k = 0; k < width; k += 32) {
    const int i = k + lane;
    const float v = i >= width ? 0.0F : values ? in[i] : turned[i];
    store_value<Type>(block, width, position % kv_page, i, v);
  }
}

}  // namespace

cudaError_t launch(const RopeKvParams& p, cudaStream_t stream) {
  const RopeParams& q = p.queries;
  if (q.rows == 0) return cudaSuccess;
  const bool fits = q.rows <= 65535 && 2 * q.pairs <= q.head_width && q.head_width <= rope_kv_max_width;
  const bool same = p.cache.count == 2 && p.cache.tokens == q.rows && p.cache.sides[0].width == q.head_width &&
                    p.cache.sides[0].type == p.cache.sides[1].type;
  if (!fits || !same) return cudaErrorInvalidValue;
  const dim3 grid(static_cast<unsigned>(q.heads + 2 * p.cache.heads), static_cast<unsigned>(q.rows));
  const bool known =
      with_kv_type(p.cache.sides[0].type, [&](auto tag) { rope_kv_kernel<tag.value><<<grid, 32, 0, stream>>>(p); });
  return known ? cudaGetLastError() : cudaErrorInvalidValue;
}

}  // namespace llminfer::cuda
