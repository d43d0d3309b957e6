// A block of four warps has one token, one KV head (with the query heads that read it) and one range of keys. Warp w
// takes every fourth page of 16 keys, or every fourth two (kernels/attention_pages.cuh):
//
//   scores  S[16 heads x 16 keys] = Q K^T. Q is A, in registers for the whole run; K is B
//   output  O[16 heads x D] += P V. What mma leaves of S in a lane is what it wants of P. V is B
//
// Bytes: K and V of the range once. Softmax is in powers of two. Limits: see attention_mma_takes. Speed not yet
// measured.
#pragma once

#include <algorithm>

#include "kernels/arrival.cuh"
#include "kernels/attention_mma_formats.h"
#include "kernels/attention_pages.cuh"
#include "kernels/attention_query.cuh"
#include "kernels/fragments.cuh"

namespace llminfer::cuda {

constexpr int attention_threads = 32 * attention_warps;

/// Maximum and sum of two query heads, rows g and g + 8.
struct Softmax {
  float best[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // of this lane's keys
};

/// 2^(a - b), 0 where a is -infinity even if b is too.
__device__ inline float fade_of(float a, float b) { return a == -INFINITY ? 0.0F : power_of_two(a - b); }

/// A multiple of 64. One page more than there are keys: a range starts at the page of its first key.
__device__ inline int keys_of_range(const AttentionParams& p, int ranges) {
  const int longest = p.window > 0 && !p.full ? min(*p.step.longest, p.window) : *p.step.longest;
  return ((longest + kv_page + ranges - 1) / ranges + 63) / 64 * 64;
}

/// Where a range leaves what it found of a head: maximum, sum, output.
__device__ inline float* partial_of(const AttentionParams& p, const AttentionRoom& room, int range, int head) {
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * room.ranges + range) * p.heads + head;
  return room.partials + row * (p.v.width + 2);
}

/// The heads of the block from what all ranges left, in their order.
template <int D>
__device__ void merge_ranges(const AttentionParams& p, const AttentionRoom& room, int token, int kv_head, int group,
                             bool there) {
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < group * D; i += attention_threads) {
    const int column = i % D, head = kv_head * group + i / D;
    float value = 0;
    if (there) {
      const std::int64_t step = static_cast<std::int64_t>(p.heads) * (D + 2);
      const float* from = partial_of(p, room, 0, head);
      const float sink = p.sinks != nullptr ? p.sinks[head] * log2_e : -INFINITY;
      float best = sink;
      for (int r = 0; r < room.ranges; ++r) best = fmaxf(best, __ldcg(from + r * step));
      float total = fade_of(sink, best), sum = 0;
      for (int r = 0; r < room.ranges; ++r) {
        const float fade = fade_of(__ldcg(from + r * step), best);
        total += __ldcg(from + r * step + 1) * fade;
        sum += __ldcg(from + r * step + 2 + column) * fade;
      }
      value = sum / total;
    }
    p.out[(static_cast<std::int64_t>(token) * p.heads + head) * D + column] = value;
  }
}

template <class Pages, int D>
struct AttentionShared {
  union {
    float merged[16][D + 4];
    uint4 rooms[attention_warps][Pages::room_bytes / 16];  // while keys are walked
  };
  float warp_best[attention_warps][16], warp_total[attention_warps][16];
  uint4 query[Query<Pages, D>::shared_words];
};

/// Scores of `Pages::keys` keys from `key` on become weights, for mma, and what they leave of themselves.
template <class Pages>
struct Weights {
  static constexpr int pages = Pages::keys / kv_page;
  unsigned weights[pages][4], rests[pages][4];

  __device__ void make(float (&s)[2 * pages][4], Softmax& softmax, float (&fade)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = softmax.best[half];
#pragma unroll
      for (int n = 0; n < 2 * pages; ++n) top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      top = row_max(top);
      const float base = top == -INFINITY ? 0.0F : top;
      fade[half] = power_of_two(softmax.best[half] - base);
      softmax.best[half] = top;
      softmax.sum[half] *= fade[half];
#pragma unroll
      for (int n = 0; n < 2 * pages; ++n) {
        const float first = power_of_two(s[n][2 * half] - base), second = power_of_two(s[n][2 * half + 1] - base);
        softmax.sum[half] += first + second;
        unsigned& pair = weights[n / 2][n % 2 * 2 + half];
        pair = pair_of<Pages::bf16>(first, second);
        if constexpr (Pages::rests) rests[n / 2][n % 2 * 2 + half] = rest_of<Pages::bf16>(pair, first, second);
      }
    }
  }
};

/// A block's range of keys: to `out` if it is the only one, else to the partial results.
template <class Pages, int D>
__device__ void attend(const AttentionParams& p, const AttentionRoom& room, AttentionShared<Pages, D>& shared,
                       int token, int kv_head, int range, int position) {
  auto& merged = shared.merged;
  auto& warp_best = shared.warp_best;
  auto& warp_total = shared.warp_total;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4,
            t = lane % 4;
  const int group = p.heads / p.kv_heads;
  const int sequence = p.step.sequence_of[token];
  const int last_seen = p.full ? p.step.last[sequence] : position;
  const int first_seen = p.window > 0 ? max(0, position - p.window + 1) : 0;
  // Ranges start at whole pages.
  const int keys = keys_of_range(p, room.ranges);
  const int start = first_seen / kv_page * kv_page + range * keys;
  const int end = min(last_seen + 1, start + keys);

  Pages pages(PageTable(p, sequence, kv_head, end), reinterpret_cast<std::uint8_t*>(shared.rooms[warp]));
  constexpr int turn = attention_warps * Pages::keys;
  pages.start(start + warp * Pages::keys);
  Query<Pages, D> q;
  q.load(p, token, kv_head, group);
  q.share(shared.query);
  Softmax softmax;
  float o[D / 8][4] = {};
#pragma unroll 1
  for (int key = start + warp * Pages::keys; key < end; key += turn) {
    float s[Pages::keys / 8][4] = {};
    pages.multiply_keys(q, key, s);
    // Element e of tile n: row g + 8 (e / 2), key 8 n + 2 t + e % 2.
    finish_scores(s, q.factor, p.cap);
    if (key < first_seen || key + Pages::keys > end) {
#pragma unroll
      for (int n = 0; n < Pages::keys / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int at = key + 8 * n + 2 * t + e % 2;
          if (at < first_seen || at >= end) s[n][e] = -INFINITY;
        }
      }
    }
    float fade[2];
    Weights<Pages> w;
    w.make(s, softmax, fade);
#pragma unroll
    for (auto& columns : o) {
#pragma unroll
      for (int e = 0; e < 4; ++e) columns[e] *= fade[e / 2];
    }
    pages.add_values(w.weights, w.rests, key, o);
  }

  // The warps' results, added in their order.
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = row_sum(softmax.sum[half]);
    if (t == 0) {
      warp_best[warp][g + 8 * half] = softmax.best[half];
      warp_total[warp][g + 8 * half] = total;
    }
  }
  __syncthreads();
  float scale[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float best = -INFINITY;
    for (int w = 0; w < attention_warps; ++w) best = fmaxf(best, warp_best[w][g + 8 * half]);
    scale[half] = fade_of(softmax.best[half], best);
  }
  for (int w = 0; w < attention_warps; ++w) {
    if (warp == w) {
#pragma unroll
      for (int i = 0; i < D / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float& to = merged[g + e / 2 * 8][Pages::column(i, e, t)];
          const float mine = o[i][e] * scale[e / 2];
          to = w == 0 ? mine : to + mine;
        }
      }
    }
    __syncthreads();
  }
  for (int i = static_cast<int>(threadIdx.x); i < group * D; i += attention_threads) {
    const int row = i / D, column = i % D, head = kv_head * group + row;
    float best = -INFINITY, total = 0;
    for (int w = 0; w < attention_warps; ++w) best = fmaxf(best, warp_best[w][row]);
    for (int w = 0; w < attention_warps; ++w) total += warp_total[w][row] * fade_of(warp_best[w][row], best);
    const float value = merged[row][column];
    if (room.ranges == 1) {
      const float sink = p.sinks != nullptr ? p.sinks[head] * log2_e : -INFINITY;
      const float top = fmaxf(best, sink);
      total = total * fade_of(best, top) + fade_of(sink, top);
      p.out[(static_cast<std::int64_t>(token) * p.heads + head) * D + column] = value * fade_of(best, top) / total;
    } else {
      float* to = partial_of(p, room, range, head);
      to[2 + column] = value;
      if (column == 0) {
        to[0] = best;
        to[1] = total;
      }
    }
  }
}

/// Blocks that a multiprocessor is to have room for, so that enough keys are under way.
template <KvType Type, int D>
constexpr int attention_blocks() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
  if (Type == KvType::q4_0 && D == 96) return 2;  // three would spill
#endif
  const bool unpacked = Type == KvType::q8_0 || Type == KvType::q4_0;
  return D == 64 ? 4 : D < 128 ? 3 : D == 128 || (unpacked && D == 256) ? 2 : 1;
}

template <KvType Type, int D>
__global__ void __launch_bounds__(attention_threads, attention_blocks<Type, D>())
    attention_mma_kernel(AttentionParams p, AttentionRoom room) {
  using Pages = typename PagesOf<Type, D>::type;
  __shared__ AttentionShared<Pages, D> shared;
  const int token = room.rows != nullptr ? room.rows[blockIdx.x] : static_cast<int>(blockIdx.x);
  const int kv_head = static_cast<int>(blockIdx.y), group = p.heads / p.kv_heads, position = p.step.positions[token];
  if (position >= 0) {
    attend<Pages, D>(p, room, shared, token, kv_head, static_cast<int>(blockIdx.z), position);
  } else if (room.ranges == 1) {
    float* to = p.out + (static_cast<std::int64_t>(token) * p.heads + kv_head * group) * D;
    for (int i = static_cast<int>(threadIdx.x); i < group * D; i += attention_threads) to[i] = 0;
  }
  if (room.ranges > 1) {
    if (!arrives_last(room.merges + blockIdx.x * p.kv_heads + kv_head, gridDim.z)) return;
    merge_ranges<D>(p, room, token, kv_head, group, position >= 0);
  }
  if (room.next.in == nullptr) return;
  const int tile = token / 8;
  const unsigned blocks = static_cast<unsigned>(min(8, p.tokens - 8 * tile) * p.kv_heads);
  if (!arrives_last(room.arrivals + tile, blocks)) return;
  make_fragments<attention_warps>(room.next, tile, reinterpret_cast<FragmentsRoom&>(shared));
}

template <KvType Type, int D>
void launch_split(const AttentionParams& p, const AttentionRoom& room, cudaStream_t stream) {
  static_assert(sizeof(FragmentsRoom) <= sizeof(AttentionShared<typename PagesOf<Type, D>::type, D>));
  const dim3 grid(static_cast<unsigned>(p.tokens), static_cast<unsigned>(p.kv_heads),
                  static_cast<unsigned>(room.ranges));
  attention_mma_kernel<Type, D><<<grid, attention_threads, 0, stream>>>(p, room);
}

/// All widths of one format. One file a format: they take long to compile.
template <KvType Type>
void launch_split_of(const AttentionParams& p, const AttentionRoom& room, cudaStream_t stream) {
  switch (p.k.width) {
    case 64:
      return launch_split<Type, 64>(p, room, stream);
    case 80:
      return launch_split<Type, 80>(p, room, stream);
    case 96:
      return launch_split<Type, 96>(p, room, stream);
    case 128:
      return launch_split<Type, 128>(p, room, stream);
    default:
      return launch_split<Type, 256>(p, room, stream);
  }
}

}  // namespace llminfer::cuda
