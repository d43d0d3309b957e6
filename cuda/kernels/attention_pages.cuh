// How a warp of attention_mma multiplies pages of keys and values, format by format. Nothing but the tail of a head's
// columns and what has to be unpacked goes through shared memory, each warp's own.
//
//   PlainPages      f16 and bf16: from global memory to registers, 16 bytes a lane. Lane 4 g + t takes 8 neighbouring
//                   columns of key g: the columns of a head may be multiplied in any order, and Q is laid out to match.
//                   Of values it takes 8 columns of each of its four keys and puts pairs together with prmt; column
//                   8 g + j belongs to product j. What is left behind a multiple of 32 columns of keys is exchanged
//                   between lanes, behind 64 columns of values it takes ldmatrix across.
//   UnpackedPages   q8_0 and q4_0: kernels/kv_tile.cuh. Loads of the next pages are under way meanwhile.
#pragma once

#include "kernels/attention.h"
#include "kernels/attention_math.cuh"
#include "kernels/kv_tile.cuh"

namespace llminfer::cuda {

constexpr int attention_warps = 4;

/// Where a warp finds pages.
struct PageTable {
  const AttentionParams& p;
  const std::int32_t* pages;  // of the sequence
  int kv_head;
  int end;  // behind the last key that is seen

  __device__ PageTable(const AttentionParams& params, int sequence, int head, int behind)
      : p(params), pages(p.step.pages + p.step.pages_at[sequence]), kv_head(head), end(behind) {}
  /// That of a key; behind the last one the last one's.
  __device__ int page_of(int key) const { return pages[min(key, end - 1) / kv_page]; }
  __device__ const std::uint8_t* block(const KvSide& side, int page) const {
    return side.data + page * side.page_bytes + side.offset + kv_head * side.block_bytes;
  }
};

/// The halves at `index` of two words' worth of two keys, side by side.
__device__ inline unsigned pair_at(unsigned first, unsigned second, int index) {
  return __byte_perm(first, second, index == 0 ? 0x5410 : 0x7632);
}

template <KvType Type, int D>
struct PlainPages {
  static constexpr KvType type = Type;
  static constexpr bool bf16 = in_bf16(Type);
  static constexpr bool rests = true;   // of weights: values are exact
  static constexpr int keys = kv_page;  // at once
  static constexpr int tail = D % 64;   // columns of values
  static constexpr int tail_stride = 2 * tail + 16, tail_loads = tail / 16;
  static constexpr int room_bytes = tail == 0 ? 16 : kv_page * tail_stride;
  static_assert(tail % 16 == 0);

  PageTable table;
  std::uint8_t* room;
  uint4 last_values[tail_loads + 1];

  __device__ PlainPages(const PageTable& pages, std::uint8_t* own) : table(pages), room(own) {}
  __device__ void start(int /*key*/) {}

  /// The first of two columns that lane t multiplies as pair `pair` of a step: two pairs are neighbours.
  __device__ static constexpr int query_column(int step, int t, int pair) {
    const int first =
        step * 16 + 16 < D || D % 32 == 0 ? step / 2 * 32 + 8 * t + step % 2 * 4 : step * 16 + t % 2 * 8 + t / 2 * 4;
    return first + 2 * pair;
  }
  /// Column of element e % 2 of product `tile`.
  __device__ static int column(int tile, int e, int t) {
    if (tile >= D / 64 * 8) return 8 * tile + 2 * t + e % 2;
    return tile / 8 * 64 + 8 * (2 * t + e % 2) + tile % 8;
  }

  template <class Query>
  __device__ void multiply_keys(const Query& q, int key, float (*s)[4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const int page = table.pages[key / kv_page];
    fetch_last_values(table.block(table.p.v, page), key, lane);
    const std::uint8_t* block = table.block(table.p.k, page);
    uint4 last{};
    if constexpr (D % 32 != 0) {  // lanes 0 and 1 of four bring key g's, 2 and 3 those of g + 8
      last = *reinterpret_cast<const uint4*>(block + 2 * D * (g + t / 2 * 8) + 2 * (D - 16 + t % 2 * 8));
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int b = 0; b < D / 32; ++b) {
        const uint4 k = *reinterpret_cast<const uint4*>(block + 2 * D * (g + 8 * n) + 2 * (32 * b + 8 * t));
        q.multiply(2 * b, k.x, k.y, s[n]);
        q.multiply(2 * b + 1, k.z, k.w, s[n]);
      }
    }
    if constexpr (D % 32 != 0) {
      const bool lower = t < 2;
      const unsigned x = __shfl_xor_sync(0xffffffffU, lower ? last.z : last.x, 2),
                     y = __shfl_xor_sync(0xffffffffU, lower ? last.w : last.y, 2);
      q.multiply(D / 16 - 1, lower ? last.x : x, lower ? last.y : y, s[0]);
      q.multiply(D / 16 - 1, lower ? x : last.z, lower ? y : last.w, s[1]);
    }
  }

  __device__ void add_values(const unsigned (*weights)[4], const unsigned (*rests_of)[4], int key, float (*o)[4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const std::uint8_t* block = table.block(table.p.v, table.pages[key / kv_page]);
#pragma unroll
    for (int b = 0; b < D / 64; ++b) {
      unsigned v[4][4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int row = 2 * t + k % 2 + k / 2 * 8;
        uint4 x = make_uint4(0, 0, 0, 0);
        if (key + row < table.end) x = *reinterpret_cast<const uint4*>(block + 2 * D * row + 2 * (64 * b + 8 * g));
        v[k][0] = x.x, v[k][1] = x.y, v[k][2] = x.z, v[k][3] = x.w;
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const unsigned low = pair_at(v[0][j / 2], v[1][j / 2], j % 2), high = pair_at(v[2][j / 2], v[3][j / 2], j % 2);
        multiply_add_as<bf16>(o[8 * b + j], rests_of[0], low, high);
        multiply_add_as<bf16>(o[8 * b + j], weights[0], low, high);
      }
    }
    if constexpr (tail != 0) {
      __syncwarp();
#pragma unroll
      for (int n = 0; n < tail_loads; ++n) {
        *reinterpret_cast<uint4*>(room + lane % 16 * tail_stride + 16 * (lane / 16 + 2 * n)) = last_values[n];
      }
      __syncwarp();
      const std::uint8_t* row = room + (lane / 8 % 2 * 8 + lane % 8) * tail_stride + lane / 16 * 16;
#pragma unroll
      for (int step = 0; step < tail / 16; ++step) {
        unsigned b[4];
        load_matrices_across(b, row + 32 * step);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          float(&to)[4] = o[D / 64 * 8 + 2 * step + n];
          multiply_add_as<bf16>(to, rests_of[0], b[2 * n], b[2 * n + 1]);
          multiply_add_as<bf16>(to, weights[0], b[2 * n], b[2 * n + 1]);
        }
      }
    }
  }

 private:
  /// Columns behind the last multiple of 64. What stands behind the last key is perhaps no number.
  __device__ void fetch_last_values(const std::uint8_t* block, int key, int lane) {
#pragma unroll
    for (int n = 0; n < tail_loads; ++n) {
      const int row = lane % 16, column = D - tail + 8 * (lane / 16 + 2 * n);
      last_values[n] = make_uint4(0, 0, 0, 0);
      if (key + row < table.end) last_values[n] = *reinterpret_cast<const uint4*>(block + 2 * D * row + 2 * column);
    }
  }
};

template <KvType Type, int D>
struct UnpackedPages {
  static constexpr KvType type = Type;
  using Rows = UnpackedRows<Type, D, kv_page>;
  static constexpr bool bf16 = false;
  static constexpr bool rests = false;  // values were rounded to halves, and so may weights be
  /// Pages at once: those of four bits are too few bytes to be under way alone.
  static constexpr int pages = Type == KvType::q4_0 && D <= 128 ? 2 : 1;
  static constexpr int keys = kv_page * pages;
  static constexpr int turn = attention_warps * keys;
  /// Whether registers hold keys and values of the next turn at once. Else a turn's values come while its scores are
  /// made, keys of the next one behind that.
  static constexpr bool both = Type == KvType::q4_0 || D <= 128;
  static constexpr int room_bytes = keys * tile_stride<D> + 2 * pages * 16 * Rows::scale_loads;

  PageTable table;
  std::uint8_t* room;
  Rows k[pages], v[pages];
  int next[pages];  // numbers of the next pages

  __device__ UnpackedPages(const PageTable& pages_of, std::uint8_t* own) : table(pages_of), room(own) {}

  __device__ void start(int key) {
    if (key >= table.end) return;
    look_up(key);
    fetch(k, table.p.k, 0);
    if constexpr (!both) return;
    fetch(v, table.p.v, 1);
    look_up(key + turn);
  }

  __device__ static constexpr int query_column(int step, int t, int pair) { return step * 16 + 2 * t + 8 * pair; }
  __device__ static int column(int tile, int e, int t) { return 8 * tile + 2 * t + e % 2; }

  template <class Query>
  __device__ void multiply_keys(const Query& q, int key, float (*s)[4]) {
    place(k, 0, key);
    if constexpr (!both) {
      look_up(key);
      fetch(v, table.p.v, 1);
    } else if (key + turn < table.end) {
      fetch(k, table.p.k, 0);
    }
    const std::uint8_t* row = room + key_row<D>(static_cast<int>(threadIdx.x) % 32);
#pragma unroll
    for (int page = 0; page < pages; ++page) {
#pragma unroll
      for (int step = 0; step < D / 16; ++step) {
        unsigned b[4];
        load_matrices(b, row + page * kv_page * tile_stride<D> + 32 * step);
        q.multiply(step, b[0], b[1], s[2 * page]);
        q.multiply(step, b[2], b[3], s[2 * page + 1]);
      }
    }
  }

  __device__ void add_values(const unsigned (*weights)[4], const unsigned (*)[4], int key, float (*o)[4]) {
    place(v, 1, key);
    if constexpr (!both) {
      if (key + turn < table.end) {
        look_up(key + turn);
        fetch(k, table.p.k, 0);
      }
    } else if (key + turn < table.end) {
      fetch(v, table.p.v, 1);
      look_up(key + 2 * turn);
    }
    const std::uint8_t* row = room + value_row<D>(static_cast<int>(threadIdx.x) % 32);
#pragma unroll
    for (int page = 0; page < pages; ++page) {
#pragma unroll
      for (int step = 0; step < D / 16; ++step) {
        unsigned b[4];
        load_matrices_across(b, row + page * kv_page * tile_stride<D> + 32 * step);
        multiply_add(o[2 * step], weights[page], b[0], b[1]);
        multiply_add(o[2 * step + 1], weights[page], b[2], b[3]);
      }
    }
  }

 private:
  __device__ void look_up(int key) {
#pragma unroll
    for (int page = 0; page < pages; ++page) next[page] = table.page_of(key + kv_page * page);
  }
  __device__ void fetch(Rows (&rows)[pages], const KvSide& side, int which) {
#pragma unroll
    for (int page = 0; page < pages; ++page) {
      rows[page].fetch(table.block(side, next[page]), 0, scales(which, page), static_cast<int>(threadIdx.x) % 32);
    }
  }
  __device__ uint4* scales(int which, int page) const {
    return reinterpret_cast<uint4*>(room + keys * tile_stride<D>) + (which * pages + page) * Rows::scale_loads;
  }
  /// Of the pages from `key` on, as halves.
  __device__ void place(const Rows (&rows)[pages], int which, int key) {
#pragma unroll
    for (int page = 0; page < pages; ++page) {
      rows[page].place(room + page * kv_page * tile_stride<D>, scales(which, page), table.end - key - kv_page * page,
                       static_cast<int>(threadIdx.x) % 32);
    }
    __syncwarp();
  }
};

template <KvType Type, int D>
struct PagesOf {
  using type = UnpackedPages<Type, D>;
};
template <int D>
struct PagesOf<KvType::f16, D> {
  using type = PlainPages<KvType::f16, D>;
};
template <int D>
struct PagesOf<KvType::bf16, D> {
  using type = PlainPages<KvType::bf16, D>;
};

}  // namespace llminfer::cuda
