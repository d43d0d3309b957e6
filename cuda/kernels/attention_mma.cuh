// A block of four warps has one token, one KV head with up to eight of the query heads that read it, and one range of
// keys. Warp w takes every fourth page of 16 keys, or every fourth two (kernels/attention_pages.cuh):
//
//   scores  S[16 keys x heads] = K Q^T. K is A, Q is B, in registers for the whole run where they hold it
//   output  O[D x heads] += V^T P. V is A. mma leaves P as rows of keys and wants them as columns: movmatrix
//
// Bytes: K and V of the range once for eight heads. Softmax is in powers of two. Limits: see attention_mma_takes. Speed
// not yet measured.
#pragma once

#include <algorithm>

#include "kernels/arrival.cuh"
#include "kernels/attention_merge.cuh"
#include "kernels/attention_mma_formats.h"
#include "kernels/attention_pages.cuh"
#include "kernels/attention_query.cuh"
#include "kernels/fragments.cuh"

namespace llminfer::cuda {

/// A multiple of 64. One page more than there are keys: a range starts at the page of its first key.
__device__ inline int keys_of_range(const AttentionParams& p, int ranges) {
  const int longest = p.window > 0 && !p.full ? min(*p.step.longest, p.window) : *p.step.longest;
  return ((longest + kv_page + ranges - 1) / ranges + 63) / 64 * 64;
}

/// Over the eight lanes that share heads.
__device__ inline float heads_max(float v) {
#pragma unroll
  for (int d = 4; d < 32; d *= 2) v = fmaxf(v, from_lane_across(v, d));
  return v;
}

/// Scores of `Pages::keys` keys, of heads 2 t and 2 t + 1, become weights, for mma, and what they leave of themselves.
template <class Pages>
struct Weights {
  static constexpr int pages = Pages::keys / kv_page;
  uint2 weights[pages], rests[pages];

  /// `s` are scores times `factor`. `fade`: of what was found before.
  __device__ void make(const float (&s)[pages][4], const float (&factor)[2], Softmax& softmax, float (&fade)[2]) {
    float w[pages][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float top = -INFINITY;
#pragma unroll
      for (int page = 0; page < pages; ++page) top = fmaxf(top, fmaxf(s[page][i], s[page][i + 2]));
      top = fmaxf(heads_max(top) * factor[i], softmax.best[i]);
      const float base = top == -INFINITY ? 0.0F : top, shift = Pages::weight_exponent - base;
      fade[i] = power_of_two(softmax.best[i] - base);
      softmax.best[i] = top;
      softmax.sum[i] *= fade[i];
#pragma unroll
      for (int page = 0; page < pages; ++page) {
#pragma unroll
        for (int e = i; e < 4; e += 2) {
          w[page][e] = power_of_two(fmaf(s[page][e], factor[i], shift));
          softmax.sum[i] += w[page][e];
        }
      }
    }
#pragma unroll
    for (int page = 0; page < pages; ++page) {
      const unsigned x = pair_of<Pages::bf16>(w[page][0], w[page][1]), y = pair_of<Pages::bf16>(w[page][2], w[page][3]);
      weights[page] = make_uint2(transposed(x), transposed(y));
      if constexpr (Pages::rests) {
        rests[page] = make_uint2(transposed(rest_of<Pages::bf16>(x, w[page][0], w[page][1])),
                                 transposed(rest_of<Pages::bf16>(y, w[page][2], w[page][3])));
      }
    }
  }
};

/// What a mask hides of the scores of a page.
template <class Pages>
__device__ void mask_scores(float (&s)[4], int key, int first_seen, int end) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const int at = key + Pages::key_at(g, e / 2);
    if (at < first_seen || at >= end) s[e] = -INFINITY;
  }
}

/// A block's range of keys.
template <class Pages, int D>
__device__ void attend(const AttentionParams& p, const AttentionRoom& room, SharedOf<Pages, D>& shared, int token,
                       const BlockHeads& heads, int range, int position) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int sequence = p.step.sequence_of[token];
  const int last_seen = p.full ? p.step.last[sequence] : position;
  const int first_seen = p.window > 0 ? max(0, position - p.window + 1) : 0;
  // Ranges start at whole pages.
  const int keys = keys_of_range(p, room.ranges);
  const int start = first_seen / kv_page * kv_page + range * keys;
  const int end = min(last_seen + 1, start + keys);

  Pages pages(PageTable(p, sequence, heads.kv_head, end), reinterpret_cast<std::uint8_t*>(shared.rooms[warp]));
  constexpr int turn = attention_warps * Pages::keys;
  pages.start(start + warp * Pages::keys);
  Query<Pages, D> q;
  q.load(p, token, heads);
  q.share(shared.query);
  pages.meet(q);
  const bool capped = p.cap > 0;
  const float factor[2] = {capped ? 1.0F : q.factor[0], capped ? 1.0F : q.factor[1]};
  Softmax softmax;
  float o[D / 16][4] = {};
#pragma unroll 1
  for (int key = start + warp * Pages::keys; key < end; key += turn) {
    constexpr int pages_at_once = Pages::keys / kv_page;
    float s[pages_at_once][4] = {};
    pages.multiply_keys(q, key, s);
    if (capped) {
#pragma unroll
      for (auto& page : s) {
#pragma unroll
        for (int e = 0; e < 4; ++e) page[e] = capped_score(page[e] * q.factor[e % 2], p.cap);
      }
    }
    if (key < first_seen || key + Pages::keys > end) {
#pragma unroll
      for (int i = 0; i < pages_at_once; ++i) mask_scores<Pages>(s[i], key + kv_page * i, first_seen, end);
    }
    float fade[2];
    Weights<Pages> w;
    w.make(s, factor, softmax, fade);
#pragma unroll
    for (auto& columns : o) {
#pragma unroll
      for (int e = 0; e < 4; ++e) columns[e] *= fade[e % 2];
    }
    pages.fade(fade);
    pages.add_values(w.weights, w.rests, key, o);
  }
  merge_warps<Pages, D>(p, room, pages, shared, softmax, o, heads);
  leave<D>(p, room, shared, token, heads, range);
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
  __shared__ union {
    SharedOf<Pages, D> own;
    FragmentsRoom fragments;
  } shared;
  const int token = room.rows != nullptr ? room.rows[blockIdx.x] : static_cast<int>(blockIdx.x);
  const int position = p.step.positions[token];
  const BlockHeads heads(p);
  if (position >= 0) {
    attend<Pages, D>(p, room, shared.own, token, heads, static_cast<int>(blockIdx.z), position);
  } else if (room.ranges == 1) {
    float* to = p.out + (static_cast<std::int64_t>(token) * p.heads + heads.first) * D;
    for (int i = static_cast<int>(threadIdx.x); i < heads.count * D; i += attention_threads) to[i] = 0;
  }
  if (room.ranges > 1) {
    if (!arrives_last(room.merges + blockIdx.x * gridDim.y + blockIdx.y, gridDim.z)) return;
    merge_ranges<D>(p, room, token, heads, position >= 0);
  }
  if (room.next.in == nullptr) return;
  const int tile = token / 8;
  const unsigned blocks = static_cast<unsigned>(min(8, p.tokens - 8 * tile)) * gridDim.y;
  if (!arrives_last(room.arrivals + tile, blocks)) return;
  make_fragments<attention_warps>(room.next, tile, shared.fragments);
}

template <KvType Type, int D>
void launch_split(const AttentionParams& p, const AttentionRoom& room, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(p.tokens), static_cast<unsigned>(attention_head_blocks(p.heads, p.kv_heads)),
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
