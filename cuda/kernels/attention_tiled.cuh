// A block of four warps takes 64 rows (query token, query head of one KV head) of one sequence, 16 a warp, and all keys
// that they see, 64 at a time (32 where heads have 256 values), in their order: nothing is split, so that a row's bits
// depend on its sequence alone.
//
//   in      keys and values of a tile are rows of 16-bit floats in shared memory, keys of the next tile come while
//           those of this one are worked on, values while the scores are made (kernels/kv_tile.cuh)
//   scores  S[16 x 64] = Q K^T of a warp. Q is A, K is B by ldmatrix
//   output  O[16 x D] += P V. What mma leaves of S in a lane is what it wants of P; V is B, by ldmatrix across
//
// Softmax runs along in powers of two. Tiles that no row of a warp sees are left out; only those that some row does not
// see all of are masked. Bytes: K and V of a sequence once for each 64 rows. Roof: tensor instructions. Of f16 and
// bfloat16 caches queries are sums of two, of bfloat16 weights too: once and a half and twice the products. Speed not
// yet measured.
#pragma once

#include "kernels/attention_math.cuh"
#include "kernels/attention_tiled_formats.h"
#include "kernels/kv_tile.cuh"

namespace llminfer::cuda {

constexpr int tiled_warps = 4;
constexpr int tiled_rows = 16 * tiled_warps;

/// Shapes of a kernel.
template <KvType Type, int D>
struct Tiled {
  static constexpr bool bf16 = in_bf16(Type);
  static constexpr int keys = D <= 128 ? 64 : bf16 ? 16 : 32;
  static constexpr int keys_of_warp = keys / tiled_warps;  // that it brings
  static constexpr int steps = D / 16;
  static constexpr int parts = query_parts(Type);
  /// Wide heads leave no registers for queries.
  static constexpr bool query_in_shared = D > 128;
  static constexpr int tile_bytes = keys * tile_stride<D>;
  static constexpr int query_bytes = query_in_shared ? tiled_warps * parts * steps * 512 : 0;
  using Rows = typename RowsOf<Type, D, keys_of_warp>::type;
  static constexpr int scale_bytes = Rows::copied ? 0 : tiled_warps * 512;
  static constexpr int shared_bytes = 2 * tile_bytes + query_bytes + scale_bytes;
};

/// Up to `each` tokens of a sequence.
struct QueryTile {
  int sequence, first, count;
};

/// Tile `index` of all sequences that are tiled. `inverse`: of `each`, by 2^32 and rounded up.
__device__ inline QueryTile find_tile(const KvStep& step, int sequences, int index, int each, unsigned inverse) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int base = 0; base < sequences; base += 32) {
    const int s = base + lane;
    const int first = s < sequences ? step.firsts[s] : 0, tokens = s < sequences ? step.firsts[s + 1] - first : 0;
    const int tiles = tokens > attention_few_tokens
                          ? static_cast<int>(__umulhi(static_cast<unsigned>(tokens + each - 1), inverse))
                          : 0;
    int upto = tiles;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const int other = __shfl_up_sync(0xffffffffU, upto, d);
      if (lane >= d) upto += other;
    }
    const unsigned beyond = __ballot_sync(0xffffffffU, index < upto);
    if (beyond != 0) {
      const int from = __ffs(static_cast<int>(beyond)) - 1, skipped = (index - upto + tiles) * each;
      return {base + from, __shfl_sync(0xffffffffU, first + skipped, from),
              __shfl_sync(0xffffffffU, min(each, tokens - skipped), from)};
    }
    index -= __shfl_sync(0xffffffffU, upto, 31);
  }
  return {0, 0, 0};
}

/// The (token, head) of row g + 8 half of a warp, as a row of queries and of the output; -1: there is none.
__device__ inline std::int64_t query_row(const AttentionParams& p, const QueryTile& tile, unsigned thread, int half) {
  const int group = p.heads / p.kv_heads;
  const int row = static_cast<int>(thread / 32 * 16 + thread % 32 / 4) + 8 * half, query = row / group;
  if (query >= tile.count) return -1;
  return (static_cast<std::int64_t>(tile.first) + query) * p.heads + static_cast<int>(blockIdx.y) * group + row % group;
}

__device__ inline int head_of(const AttentionParams& p, unsigned thread, int half) {
  const int group = p.heads / p.kv_heads, row = static_cast<int>(thread / 32 * 16 + thread % 32 / 4) + 8 * half;
  return static_cast<int>(blockIdx.y) * group + row % group;
}

/// What a warp's rows see. Those that are not there see what the last token does.
struct TiledRows {
  int first_key[2], last_key[2];  // of rows g and g + 8
  int all_from, all_to;           // keys that every row sees
  int from, to;                   // keys that some row sees
};

__device__ inline TiledRows rows_of_warp(const AttentionParams& p, const QueryTile& tile, int group) {
  const int lane = static_cast<int>(threadIdx.x) % 32, top = static_cast<int>(threadIdx.x) / 32 * 16;
  const int start = p.step.positions[tile.first], last = p.full ? p.step.last[tile.sequence] : 0;
  const auto first_of = [&](int query) { return p.window > 0 ? max(0, start + query - p.window + 1) : 0; };
  const auto last_of = [&](int query) { return p.full ? last : start + query; };
  TiledRows r;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = top + lane / 4 + 8 * half, query = row / group;
    r.first_key[half] = first_of(min(query, tile.count - 1));
    r.last_key[half] = last_of(min(query, tile.count - 1));
  }
  const int low = min(top / group, tile.count - 1), high = min((top + 15) / group, tile.count - 1);
  r.all_from = first_of(high);
  r.all_to = last_of(low);
  r.from = first_of(low);
  r.to = top / group < tile.count ? last_of(high) : -1;
  return r;
}

template <KvType Type, int D>
struct TiledQuery {
  using Shape = Tiled<Type, D>;
  unsigned a[Shape::query_in_shared ? 1 : Shape::parts * Shape::steps][4];
  uint4* room;      // of this lane, every 32nd one
  float factor[2];  // of the scores of rows g and g + 8, with the powers of two that were taken out

  __device__ void load(const AttentionParams& p, const QueryTile& tile, uint4* shared) {
    const int t = static_cast<int>(threadIdx.x) % 4;
    room = shared;
    const float* from[2];
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t row = query_row(p, tile, threadIdx.x, half);
      from[half] = p.q + max(row, std::int64_t{0}) * D + 2 * t;
      float largest = 0;
#pragma unroll
      for (int c = 0; c < D; c += 8) {
        const float2 v = *reinterpret_cast<const float2*>(from[half] + c);
        largest = fmaxf(largest, fmaxf(fabsf(v.x), fabsf(v.y)));
      }
      const float power = power_below(row_max(largest));
      inverse[half] = row >= 0 ? copysignf(1.0F / power, p.scale) : 0.0F;
      factor[half] = fmaxf(score_factor(fabsf(p.scale) * power, p.cap), 1e-30F);
    }
#pragma unroll
    for (int s = 0; s < Shape::steps; ++s) {
      unsigned pair[4], rest[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 v = *reinterpret_cast<const float2*>(from[i % 2] + 16 * s + i / 2 * 8);
        const float x = v.x * inverse[i % 2], y = v.y * inverse[i % 2];
        pair[i] = pair_of<Shape::bf16>(x, y);
        rest[i] = rest_of<Shape::bf16>(pair[i], x, y);
      }
      put(s, pair);
      if constexpr (Shape::parts == 2) put(Shape::steps + s, rest);
    }
  }
  __device__ void get(int step, unsigned (&out)[4]) const {
    if constexpr (Shape::query_in_shared) {
      const uint4 v = room[32 * step];
      out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[i] = a[step][i];
    }
  }

 private:
  __device__ void put(int step, const unsigned (&in)[4]) {
    if constexpr (Shape::query_in_shared) {
      room[32 * step] = make_uint4(in[0], in[1], in[2], in[3]);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[step][i] = in[i];
    }
  }
};

/// Brings a warp's part of a tile of keys or values.
template <KvType Type, int D>
struct TileSide {
  using Shape = Tiled<Type, D>;
  std::uint8_t* tile;        // this warp's part
  uint4* scales;             // this warp's
  const std::uint8_t* side;  // the head's block of page 0
  std::int64_t page_bytes;
  typename Shape::Rows rows;

  __device__ const std::uint8_t* block_of(const std::int32_t* pages, int key, int end) const {
    return side + pages[min(key, end - 1) / kv_page] * page_bytes;
  }
  /// Starts: of copied rows all, of others the loads.
  __device__ void start(const std::int32_t* pages, int key, int end) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (Shape::Rows::copied) {
      Shape::Rows::copy(tile, block_of(pages, key, end), key % kv_page, end - key, lane);
      commit_copies();
    } else if (key < end) {
      rows.fetch(block_of(pages, key, end), key % kv_page, scales, lane);
    } else {
      rows.clear();
    }
  }
  __device__ void place(int there) {
    if constexpr (!Shape::Rows::copied) {
      rows.place(tile, scales, there, static_cast<int>(threadIdx.x) % 32);
    }
  }
};

/// S of a warp and a tile of keys.
template <KvType Type, int D>
__device__ void multiply_tile(const TiledQuery<Type, D>& q, const std::uint8_t* keys, float (*s)[4]) {
  using Shape = Tiled<Type, D>;
#pragma unroll
  for (int step = 0; step < Shape::steps; ++step) {
    unsigned a[4], rest[4];
    q.get(step, a);
    if constexpr (Shape::parts == 2) q.get(Shape::steps + step, rest);
#pragma unroll
    for (int pair = 0; pair < Shape::keys / 16; ++pair) {
      unsigned b[4];
      load_matrices(b, keys + pair * 16 * tile_stride<D> + 32 * step);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        if constexpr (Shape::parts == 2) multiply_add_as<Shape::bf16>(s[2 * pair + n], rest, b[2 * n], b[2 * n + 1]);
        multiply_add_as<Shape::bf16>(s[2 * pair + n], a, b[2 * n], b[2 * n + 1]);
      }
    }
  }
}

/// -infinity where a row does not see a key, from `key` on.
template <int Tiles>
__device__ void mask_scores(float (&s)[Tiles][4], const TiledRows& rows, int key) {
  if (key >= rows.all_from && key + 8 * Tiles - 1 <= rows.all_to) return;
  key += 2 * (static_cast<int>(threadIdx.x) % 4);
#pragma unroll
  for (int n = 0; n < Tiles; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int at = key + 8 * n + e % 2;
      if (at < rows.first_key[e / 2] || at > rows.last_key[e / 2]) s[n][e] = -INFINITY;
    }
  }
}

/// Largest score and sum of weights of rows g and g + 8.
struct TiledSoftmax {
  float best[2] = {-INFINITY, -INFINITY};  // without the factor
  float sum[2] = {0, 0};                   // of this lane's keys

  /// Scores, which are to be multiplied by a factor above 0, become weights; what was summed before is to be multiplied
  /// by `fade`.
  template <int Tiles>
  __device__ void weigh(float (&s)[Tiles][4], const float (&factor)[2], float (&fade)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = best[half];
#pragma unroll
      for (int n = 0; n < Tiles; ++n) top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      top = row_max(top);
      const float base = top == -INFINITY ? 0.0F : top * -factor[half];
      fade[half] = power_of_two(fmaf(best[half], factor[half], base));
      best[half] = top;
      sum[half] *= fade[half];
#pragma unroll
      for (int n = 0; n < Tiles; ++n) {
        s[n][2 * half] = power_of_two(fmaf(s[n][2 * half], factor[half], base));
        s[n][2 * half + 1] = power_of_two(fmaf(s[n][2 * half + 1], factor[half], base));
        sum[half] += s[n][2 * half] + s[n][2 * half + 1];
      }
    }
  }
};

/// O += P V of a warp and a tile of values.
template <KvType Type, int D>
__device__ void add_values(const float (*s)[4], const std::uint8_t* values, float (&o)[D / 8][4]) {
  using Shape = Tiled<Type, D>;
#pragma unroll
  for (int pair = 0; pair < Shape::keys / 16; ++pair) {
    unsigned weights[4], rests[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float first = s[2 * pair + i / 2][i % 2 * 2], second = s[2 * pair + i / 2][i % 2 * 2 + 1];
      weights[i] = pair_of<Shape::bf16>(first, second);
      rests[i] = rest_of<Shape::bf16>(weights[i], first, second);
    }
#pragma unroll
    for (int step = 0; step < Shape::steps; ++step) {
      unsigned b[4];
      load_matrices_across(b, values + pair * 16 * tile_stride<D> + 32 * step);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        if constexpr (Shape::bf16) multiply_add_bf16(o[2 * step + n], rests, b[2 * n], b[2 * n + 1]);
        multiply_add_as<Shape::bf16>(o[2 * step + n], weights, b[2 * n], b[2 * n + 1]);
      }
    }
  }
}

template <int D>
__device__ void store_rows(const AttentionParams& p, const QueryTile& tile, const TiledSoftmax& softmax,
                           const float (&factor)[2], const float (&o)[D / 8][4]) {
  unsigned thread = threadIdx.x;
  asm volatile("" : "+r"(thread));  // rows are found again, so that they take no registers before
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = row_sum(softmax.sum[half]), scale = 1;
    const std::int64_t row = query_row(p, tile, thread, half);
    if (row < 0) continue;
    if (p.sinks != nullptr) {
      const float best = softmax.best[half] * factor[half], sink = p.sinks[head_of(p, thread, half)] * log2_e;
      const float top = fmaxf(best, sink);
      scale = power_of_two(best - top);
      total = total * scale + power_of_two(sink - top);
    }
    scale /= total;
    float* to = p.out + row * D + 2 * (thread % 4);
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      *reinterpret_cast<float2*>(to + 8 * n) = make_float2(o[n][2 * half] * scale, o[n][2 * half + 1] * scale);
    }
  }
}

template <KvType Type, int D>
__global__ void __launch_bounds__(32 * tiled_warps, 2)
    attention_tiled_kernel(AttentionParams p, AttentionTiles tiles, int each, unsigned inverse) {
  using Shape = Tiled<Type, D>;
  extern __shared__ uint4 room[];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int kv_head = static_cast<int>(blockIdx.y), group = p.heads / p.kv_heads;
  // Those with the most keys first.
  const QueryTile tile =
      find_tile(p.step, tiles.sequences, static_cast<int>(gridDim.x - 1 - blockIdx.x), each, inverse);
  if (tile.count == 0) return;
  const TiledRows rows = rows_of_warp(p, tile, group);
  const std::int32_t* pages = p.step.pages + p.step.pages_at[tile.sequence];
  const int position = p.step.positions[tile.first];
  const int start = p.window > 0 ? max(0, position - p.window + 1) / kv_page * kv_page : 0;
  const int end = (p.full ? p.step.last[tile.sequence] : position + tile.count - 1) + 1;

  auto* const key_tile = reinterpret_cast<std::uint8_t*>(room);
  std::uint8_t* const value_tile = key_tile + Shape::tile_bytes;
  std::uint8_t* const behind = value_tile + Shape::tile_bytes;
  const int own = warp * Shape::keys_of_warp;  // of a tile's keys, the first that this warp brings
  TileSide<Type, D> k, v;
  k.tile = key_tile + own * tile_stride<D>;
  v.tile = value_tile + own * tile_stride<D>;
  k.scales = reinterpret_cast<uint4*>(behind + Shape::query_bytes) + 32 * warp;
  v.scales = k.scales + 16;
  k.side = p.k.data + p.k.offset + kv_head * p.k.block_bytes;
  v.side = p.v.data + p.v.offset + kv_head * p.v.block_bytes;
  k.page_bytes = p.k.page_bytes;
  v.page_bytes = p.v.page_bytes;
  k.start(pages, start + own, end);

  TiledQuery<Type, D> q;
  q.load(p, tile, reinterpret_cast<uint4*>(behind) + warp * (Shape::query_bytes / 64) + lane);
  k.place(end - start - own);

  const float factor[2] = {p.cap > 0 ? 1.0F : q.factor[0], p.cap > 0 ? 1.0F : q.factor[1]};
  TiledSoftmax softmax;
  float o[D / 8][4] = {};
#pragma unroll 1
  for (int key = start; key < end; key += Shape::keys) {
    const bool more = key + Shape::keys < end, seen = key <= rows.to && key + Shape::keys > rows.from;
    v.start(pages, key + own, end);
    if constexpr (Shape::Rows::copied) {
      wait_for_copies<1>();
    } else if (more) {
      k.start(pages, key + Shape::keys + own, end);
    }
    __syncthreads();
    float s[Shape::keys / 8][4] = {};
    if (seen) multiply_tile<Type, D>(q, key_tile + key_row<D>(lane), s);
    __syncthreads();
    if (more) {
      if constexpr (Shape::Rows::copied) k.start(pages, key + Shape::keys + own, end);
      k.place(end - key - Shape::keys - own);
    } else {
      commit_copies();
    }
    if (seen) {
      float fade[2];
      if (p.cap > 0) finish_scores(s, q.factor, p.cap);
      mask_scores(s, rows, key);
      softmax.weigh(s, factor, fade);
      if (__any_sync(0xffffffffU, fade[0] != 1.0F || fade[1] != 1.0F)) {
#pragma unroll
        for (auto& columns : o) {
#pragma unroll
          for (int e = 0; e < 4; ++e) columns[e] *= fade[e / 2];
        }
      }
    }
    v.place(end - key - own);
    if constexpr (Shape::Rows::copied) wait_for_copies<1>();
    __syncthreads();
    if (seen) add_values<Type, D>(s, value_tile + value_row<D>(lane), o);
    __syncthreads();
  }
  store_rows<D>(p, tile, softmax, factor, o);
}

template <KvType Type, int D>
cudaError_t launch_tiled(const AttentionParams& p, const AttentionTiles& tiles, cudaStream_t stream) {
  constexpr int shared = Tiled<Type, D>::shared_bytes;
  static_assert(shared <= 99 * 1024);
  const cudaError_t e =
      cudaFuncSetAttribute(attention_tiled_kernel<Type, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  if (e != cudaSuccess) return e;
  const int each = attention_tile_tokens(p.heads / p.kv_heads);
  const unsigned inverse = 0xffffffffU / static_cast<unsigned>(each) + 1;
  const dim3 grid(static_cast<unsigned>(tiles.count), static_cast<unsigned>(p.kv_heads));
  attention_tiled_kernel<Type, D><<<grid, 32 * tiled_warps, shared, stream>>>(p, tiles, each, inverse);
  return cudaGetLastError();
}

/// All widths of one format. One file a format: they take long to compile.
template <KvType Type>
cudaError_t launch_tiled_of(const AttentionParams& p, const AttentionTiles& tiles, cudaStream_t stream) {
  switch (p.k.width) {
    case 64:
      return launch_tiled<Type, 64>(p, tiles, stream);
    case 80:
      return launch_tiled<Type, 80>(p, tiles, stream);
    case 96:
      return launch_tiled<Type, 96>(p, tiles, stream);
    case 128:
      return launch_tiled<Type, 128>(p, tiles, stream);
    default:
      return launch_tiled<Type, 256>(p, tiles, stream);
  }
}

}  // namespace llminfer::cuda
