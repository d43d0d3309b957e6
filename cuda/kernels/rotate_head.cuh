// One head of a token by one warp: its norm, its rotation, and its row of the cache.
#pragma once

#include "kernels/kv_store.cuh"
#include "kernels/norm_order.cuh"
#include "kernels/rope_kv.h"
#include "kernels/rotation.cuh"

namespace llminfer::cuda {

enum class HeadKind { query, key, value };

/// One head's row, to where `out` says: may be where it came from.
__device__ inline void rotate(const RopeParams& p, int position, int lane, const float* in, float* out) {
#pragma unroll 1
  for (int i = lane; i < p.pairs; i += 32) {
    double sine = 0, cosine = 0;
    sine_and_cosine(static_cast<double>(position) * static_cast<double>(p.inverse_frequency[i]), sine, cosine);
    const float s = static_cast<float>(sine) * p.magnitude, c = static_cast<float>(cosine) * p.magnitude;
    const int x = p.adjacent ? 2 * i : i, y = p.adjacent ? 2 * i + 1 : i + p.pairs;
    const Turned t = turned(in[x], in[y], s, c);
    out[x] = t.x;
    out[y] = t.y;
  }
#pragma unroll 1
  for (int i = 2 * p.pairs + lane; i < p.head_width; i += 32) out[i] = in[i];
}

/// The norm of one head's row, in its place.
__device__ inline void norm_head(float* row, const float* weight, float eps, int width, int lane) {
  float squares[norm_parts] = {};
#pragma unroll 1
  for (int k = lane; k < width; k += 32 * norm_parts) {
#pragma unroll
    for (int w = 0; w < norm_parts; ++w) {
      const float v = k + 32 * w < width ? row[k + 32 * w] : 0.0F;
      squares[w] = fmaf(v, v, squares[w]);
    }
  }
#pragma unroll
  for (float& part : squares) part = warp_sum(part);
  const float scale = norm_scale(squares, width, eps);
#pragma unroll 1
  for (int k = lane; k < width; k += 32) row[k] = normed(row[k], scale, weight[k]);
}

/// By all lanes of a warp. `row`: [rope_kv_max_width] of shared memory, the warp's own, which nobody uses any more.
__device__ inline void rotate_head(const RopeKvParams& p, HeadKind kind, int token, int head, int lane, float* row) {
  const int position = p.cache.step.positions[token];
  const bool query = kind == HeadKind::query, value = kind == HeadKind::value;
  if (!query && position < 0) return;  // a row without a token
  const int width = value ? p.cache.sides[1].width : p.queries.head_width;
  const int heads = query ? p.queries.heads : p.cache.heads;
  const std::int64_t at = (static_cast<std::int64_t>(token) * heads + head) * width;
  const float* in = (query ? p.queries.in : value ? p.cache.in[1] : p.cache.in[0]) + at;
#pragma unroll 1
  for (int i = lane; i < width; i += 32) row[i] = __ldcg(in + i);  // what other blocks may have written
  __syncwarp();
  const float* norm = query ? p.query_norm : value ? nullptr : p.key_norm;
  if (norm != nullptr) {
    norm_head(row, norm, p.eps, width, lane);
    __syncwarp();
  }
  if (!value) rotate(p.queries, position, lane, row, query ? p.queries.out + at : row);
  __syncwarp();
  if (query) return;
  const KvSide side = value ? p.cache.sides[1] : p.cache.sides[0];
  const std::int32_t* pages = p.cache.step.pages + p.cache.step.pages_at[p.cache.step.sequence_of[token]];
  std::uint8_t* block = kv_block(side, pages, position, head);
  store_row(side.type, block, width, position % kv_page, lane, [row](int i) { return row[i]; });
  __syncwarp();
}

}  // namespace llminfer::cuda
