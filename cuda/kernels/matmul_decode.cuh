// Products of up to eight rows of activations. A warp works on 64 rows of weights (or twice that) at a time and takes
// every eighth chunk of their columns; the sums of the warps meet in shared memory and are added in the order of the
// warps, so that results are the same bits every time. Weights and activations go from memory to registers; of both all
// loads of a chunk are under way at once.
#pragma once

#include "kernels/combine.cuh"
#include "kernels/matmul_chunk.cuh"
#include "kernels/matmul_heads.cuh"

namespace llminfer::cuda {

/// Sums of the warps of a block, for each row of activations those of the rows of weights. Four floats more shift the
/// banks of rows by a quarter: lanes write without conflicts.
template <int Groups, int Warps>
using DecodeRoom = float[Warps][8][64 * Groups + 4];

/// A tile of rows of activations.
template <bool Experts>
struct RowTile {
  int number, rows;  ///< rows may be more than 8: of all tiles from this one on
  int expert = 0;

  __device__ RowTile(const MatMulQuantParams& p, int n) : number(n), rows(p.rows - 8 * n) {
    if constexpr (Experts) {
      rows = p.tiles[n].rows;
      expert = p.tiles[n].expert;
    }
  }
  __device__ ResultRow result(const MatMulQuantParams& p, int row) const {
    const int at = 8 * number + row;
    if constexpr (!Experts) return plain_row(at);
    const int from = p.tile_tokens != nullptr ? p.tile_tokens[at] : at;
    return {from, p.tile_rows[at], static_cast<std::int64_t>(expert) * p.targets[0].columns_out};
  }
  /// Where the first block of a row's fragments is, in eighths of a block.
  __device__ std::int64_t fragments_at(const MatMulQuantParams& p, int row) const {
    const std::int64_t tile_eighths = 8 * static_cast<std::int64_t>(p.in_blocks);
    if constexpr (Experts) {
      if (p.tile_tokens != nullptr) {
        const int token = max(p.tile_tokens[8 * number + row], 0);
        return token / 8 * tile_eighths + token % 8;
      }
    }
    return number * tile_eighths + row;
  }
};

/// Whether the block has stored results, or in a cluster whether it is the first of those that have.
template <class Format, int Groups, int Warps, bool Experts>
__device__ bool decode_store(const MatMulQuantParams& p, const BlockTarget& target, const Sums<1> (&sum)[Groups],
                             DecodeRoom<Groups, Warps>& room, const RowTile<Experts>& tile) {
  const int warp = static_cast<int>(threadIdx.x) / 32, g = static_cast<int>(threadIdx.x) % 32 / 4,
            t = static_cast<int>(threadIdx.x) % 4;
  const int rows = min(8, tile.rows);
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    if (2 * t + e >= rows) continue;
#pragma unroll
    for (int n = 0; n < 4 * Groups; ++n) {
      room[warp][2 * t + e][16 * n + g] = sum[n / 4][n % 4][0][e] * Format::first;
      room[warp][2 * t + e][16 * n + g + 8] = sum[n / 4][n % 4][0][2 + e] * Format::second;
    }
  }
  __syncthreads();
  constexpr int width = 64 * Groups;
  const bool gated = p.end.gated;
  // Of `parts` parts of the results this one.
  const auto each_of = [&](int part, int parts, int columns_log, auto&& use) {
    const int count = rows << columns_log;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) + 32 * Warps * part; i < count; i += 32 * Warps * parts) {
      use(i >> columns_log, i & ((1 << columns_log) - 1));
    }
  };
  constexpr int width_log = Groups == 1 ? 6 : Groups == 2 ? 7 : 8;
  const auto all_warps = [&](int row, int at) {
    float v = 0;
#pragma unroll
    for (int w = 0; w < Warps; ++w) v += room[w][row][at];
    return v;
  };
  /// `sum(row, at)`: of the row of weights `at` of the block.
  const auto store = [&](int part, int parts, auto&& sum) {
    if (!gated) {
      each_of(part, parts, width_log, [&](int row, int at) {
        const int j = target.block * width + at;
        if (j < target.weight.columns_out) store_result(p, target.weight, tile.result(p, row), j, sum(row, at));
      });
    } else {
      each_of(part, parts, width_log - 1, [&](int row, int at) {
        const int j = target.block * (width / 2) + at;
        if (j < target.weight.columns_out) {
          store_gated(p, tile.result(p, row), j, sum(row, at), sum(row, at + width / 2));
        }
      });
    }
  };
  if (gridDim.z == 1) {
    store(0, 1, all_warps);
    return true;
  }
  if (shares_in_cluster()) {
    // Who adds the warps' sums is the only one that reads them.
    each_of(0, 1, width_log, [&](int row, int at) { room[0][row][at] = all_warps(row, at); });
    cluster_barrier();
    store(static_cast<int>(cluster_rank()), static_cast<int>(cluster_blocks()),
          [&](int row, int at) { return sum_of_blocks(&room[0][row][at]); });
    cluster_barrier();  // no block ends or uses its memory anew before the others have read it
    return cluster_rank() == 0;
  }
  float* mine = partials_of(p, blockIdx.z, 8 * width);
  each_of(0, 1, width_log, [&](int row, int at) { __stcg(mine + row * width + at, all_warps(row, at)); });
  if (!is_last_block(p)) return false;
  const float* all = partials_of(p, 0, 8 * width);
  store(0, 1, [&](int row, int at) {
    const float own[1] = {all_warps(row, at)};  // is still here
    float sum[1];
    add_left(
        all + row * width + at, 8 * width, own, [](int) { return 0; }, sum);
    return sum[0];
  });
  return true;
}

/// Where a lane finds sums of activations, in floats.
struct SumsAt {
  const float* sums;  ///< of row 2 t
  int next, group;    ///< with experts from there to those of row 2 t + 1, of row g
};

/// `x`: the lane's fragment; `to_rest`: from there to what halves left of it; `at`: of the block. Rows behind the last
/// one are not read: with one row that is seven eighths of the requests.
template <class Format, bool Experts>
__device__ void load_input(BlockInput<1>& in, const uint4* x, std::int64_t to_rest, const SumsAt& at, bool there,
                           bool sums_there) {
  if (there) {
    in.x[0] = __ldg(x);
    if constexpr (Format::floats) in.rest[0] = __ldg(x + to_rest);
  }
  if constexpr (Format::sums) {
    if (sums_there) {
      float4& to = in.sums[0];
      constexpr bool two = Format::Scales::groups == 2;
      if constexpr (Experts) {  // rows that may be anywhere
        if constexpr (two) {
          const float2 even = __ldg(reinterpret_cast<const float2*>(at.sums)),
                       odd = __ldg(reinterpret_cast<const float2*>(at.sums + at.next));
          to = make_float4(even.x, even.y, odd.x, odd.y);
        } else {
          to.x = __ldg(at.sums);
          to.y = __ldg(at.sums + at.next);
        }
      } else if constexpr (two) {
        to = __ldg(reinterpret_cast<const float4*>(at.sums));
      } else {
        const float2 v = __ldg(reinterpret_cast<const float2*>(at.sums));
        to.x = v.x;
        to.y = v.y;
      }
    }
  }
}

/// `levels_at(h)`: the lane's of group h; from there to scales and to what is behind the piece.
template <class Format, int Groups, class LevelsAt>
__device__ void load_weights(Chunk<Format> (&w)[Groups], const LevelsAt& levels_at, int to_scales, int to_tail) {
  constexpr bool first = Format::loads_first(Groups);
#pragma unroll
  for (int h = 0; h < Groups; ++h) {
    const std::uint8_t* at = levels_at(h);
    if (first && h + 1 == Groups) {
      w[h].load_most(at);
    } else {
      w[h].levels.load(at);
    }
    if (!first) w[h].load_scales(at + to_scales, at + to_tail);
  }
  if (!first) return;
  __syncwarp();  // no load comes later than its place here
  w[Groups - 1].load_rest(levels_at(Groups - 1));
#pragma unroll
  for (int h = 0; h < Groups; ++h) w[h].load_scales(levels_at(h) + to_scales, levels_at(h) + to_tail);
}

/// A block of rows of weights of `p`, of which `ahead` blocks are not. Whether it has stored results, or with experts
/// has none to store.
template <class Format, int Groups, int Warps, bool Experts>
__device__ bool decode_block(const MatMulQuantParams& p, unsigned ahead, DecodeRoom<Groups, Warps>& room) {
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int g = static_cast<int>(threadIdx.x % 32 / 4), t = static_cast<int>(threadIdx.x % 4);
  const BlockTarget target = target_of(p, 64 * Groups, blockIdx.x - ahead);
  const int tile = static_cast<int>(blockIdx.y);
  const RowTile<Experts> row_tile(p, tile);
  if (row_tile.rows == 0) return Experts && blockIdx.z == 0;
  const int first = warp + Warps * static_cast<int>(blockIdx.z);
  int step = Warps * static_cast<int>(gridDim.z);
  int there = g < row_tile.rows ? 1 : 0, sums_there = 2 * t < row_tile.rows ? 1 : 0;
  const std::int64_t group_bytes = p.chunks / Format::piece_chunks * static_cast<std::int64_t>(Format::piece_bytes);
  const std::int64_t first_group = group_at(p, target, Groups, 0, group_bytes);
  std::int64_t to_group[Groups];  // from the first
#pragma unroll
  for (int h = 0; h < Groups; ++h) {
    to_group[h] = h == 0 ? 0 : group_at(p, target, Groups, h, group_bytes) - first_group;
  }
  // The lane's levels; from there: scales of its rows, what is behind the piece.
  const std::uint8_t* weight =
      target.weight.weight + row_tile.expert * p.expert_bytes + first_group + Format::at(first) + 16 * lane;
  int to_scales = Format::Levels::bytes + 16 * (g - lane);
  int to_tail = (Format::piece_chunks - warp % Format::piece_chunks) * Format::chunk_bytes + 16 * (g - lane);
  // Not to be found anew in each turn.
  asm volatile("" : "+r"(there), "+r"(sums_there), "+r"(to_scales), "+r"(to_tail), "+r"(step));
  const int weight_step = step / Format::piece_chunks;
  const uint4* x =
      reinterpret_cast<const uint4*>(p.fragments) + 4 * row_tile.fragments_at(p, g) + t + 64 * std::int64_t{first};
  const std::int64_t to_rest = reinterpret_cast<const uint4*>(p.rest) - reinterpret_cast<const uint4*>(p.fragments);
  // Floats of a block of 32 columns, an eighth of them of a row.
  constexpr int width = Format::Scales::groups == 2 ? 16 : 8;
  const auto sums_at = [&](int row) { return width / 8 * row_tile.fragments_at(p, row); };
  const int in_rows = Experts ? p.in_rows : p.rows;
  SumsAt sums{
      p.block_sums + (width == 16 ? step_sums_at(in_rows, p.in_blocks) : 0) + 2 * first * width + sums_at(2 * t),
      Experts ? static_cast<int>(sums_at(2 * t + 1) - sums_at(2 * t)) : 0,
      Experts ? static_cast<int>(sums_at(g) - sums_at(2 * t)) : 0};

  Sums<1> sum[Groups] = {};
  BlockInput<1> in[2] = {};
  Chunk<Format> w[Groups];
#pragma unroll
  for (int h = 0; h < Groups; ++h) w[h].prepare(Hidden{static_cast<unsigned>(p.rows) >> 31});
  for (int c = first; c < p.chunks; c += step) {
    load_weights<Format, Groups>(
        w, [&](int h) { return weight + to_group[h]; }, to_scales, to_tail);
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      const SumsAt at{sums.sums + width * block, sums.next, 0};
      load_input<Format, Experts>(in[block], x + 32 * block, to_rest, at, there != 0, sums_there != 0);
    }
#pragma unroll
    for (int h = 0; h < Groups; ++h) {
      add_chunk<Format, 1>(
          w[h], [&](int block) -> const BlockInput<1>& { return in[block]; }, sum[h]);
    }
    if constexpr (Format::minima) {
      if (warp % 4 == 0) {
        GroupSums all[1];
        all[0].load<Format>(sums.sums + (Experts ? sums.group : width / 8 * g - width / 4 * t), t, there != 0);
#pragma unroll
        for (int h = 0; h < Groups; ++h) {
          const std::uint8_t* tail = weight + to_group[h] + to_tail;
          SuperScale dmin;
          dmin.load(tail + 128);
          subtract_minima<Format, 1>(stream16(tail + 256 + 16 * (lane - g)), dmin, all, sum[h]);
        }
      }
    }
    weight += static_cast<std::int64_t>(weight_step) * Format::piece_bytes;
    x += static_cast<std::int64_t>(step) * 64;
    sums.sums += static_cast<std::int64_t>(step) * 2 * width;
  }
  unsigned number = blockIdx.x - ahead, y = blockIdx.y;
  asm volatile("" : "+r"(number), "+r"(y));  // found again, so that they take no registers before
  const RowTile<Experts> to_tile(p, static_cast<int>(y));
  const BlockTarget to = target_of(p, 64 * Groups, number);
  const bool stored = decode_store<Format, Groups, Warps, Experts>(p, to, sum, room, to_tile);
  if constexpr (!Experts) {
    static_assert(sizeof(HeadsRoom<Warps>) <= sizeof(room));
    constexpr int width = 64 * Groups;
    if (stored) {
      finish_heads<Warps>(p, to.weight, to.block * width, width, min(8, to_tile.rows),
                          *reinterpret_cast<HeadsRoom<Warps>*>(&room));
    }
  }
  return stored;
}

template <class Format, int Groups, int Warps>
__global__ void __launch_bounds__(32 * Warps, Format::blocks(Groups)) matmul_decode_kernel(MatMulQuantParams p) {
  __shared__ DecodeRoom<Groups, Warps> room;
  if (!decode_block<Format, Groups, Warps, false>(p, 0, room)) return;
  make_next<Warps>(p, static_cast<int>(blockIdx.y), 1, room);
}

/// The last block of these columns adds up what the experts of each token give, the last of all makes the fragments.
template <int Groups, int Warps>
__device__ void combine_tiles(const MatMulQuantParams& p, DecodeRoom<Groups, Warps>& room) {
  const CombineParams& c = p.end.combine;
  if (!arrives_last(p.end.column_arrivals + blockIdx.x, gridDim.y)) return;
  constexpr int width = 64 * Groups;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < c.rows * width; i += 32 * Warps) {
    const int j = static_cast<int>(blockIdx.x) * width + i % width;
    if (j < c.width) combine_value(c, i / width, j);
  }
  if (c.next.in == nullptr || !arrives_last(p.end.arrivals, gridDim.x)) return;
#pragma unroll 1
  for (int tile = 0; tile < (c.rows + 7) / 8; ++tile) {
    make_fragments<Warps>(c.next, tile, *reinterpret_cast<FragmentsRoom*>(&room));
  }
}

/// Blocks of experts that a multiprocessor is to have room for.
template <class Format>
constexpr int expert_blocks(int groups) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
  if (Format::narrow) return 2;  // three would spill
#endif
  return Format::blocks(groups);
}

template <class Format, int Groups, int Warps>
__global__ void __launch_bounds__(32 * Warps, expert_blocks<Format>(Groups))
    matmul_experts_kernel(MatMulQuantParams p) {
  __shared__ DecodeRoom<Groups, Warps> room;
  if (!decode_block<Format, Groups, Warps, true>(p, 0, room)) return;
  if (p.end.combine.in != nullptr) return combine_tiles<Groups, Warps>(p, room);
  if (p.tiles[blockIdx.y].rows > 0) make_next<Warps>(p, static_cast<int>(blockIdx.y), 1, room);
}

template <class Format, int Groups, bool Experts = false>
cudaError_t launch_decode_of(const MatMulQuantParams& p, cudaStream_t stream) {
  constexpr int warps = Format::narrow || Groups == 4 ? 4 : 8;
  const unsigned blocks = row_blocks_of(p, 64 * Groups), tiles = blocks_for(p.rows, 8);
  const Sharing sharing =
      sharing_of(p, blocks * tiles, Experts ? 0 : 64 * Groups, p.chunks / warps, Format::blocks(Groups));
  void (*kernel)(MatMulQuantParams) = nullptr;
  if constexpr (Experts) {
    kernel = matmul_experts_kernel<Format, Groups, warps>;
  } else {
    kernel = matmul_decode_kernel<Format, Groups, warps>;
  }
  return launch_sharing(kernel, sharing, dim3(blocks, tiles), 32 * warps, 0, stream, p);
}

template <class Format>
cudaError_t launch_decode(const MatMulQuantParams& p, cudaStream_t stream) {
  constexpr int few = Format::wide ? 2 : 1;
  // With more rows activations are what is read most: more rows of weights share them.
  constexpr int many = Format::Levels::bytes == 1024 ? 4 : 2;
  // Experts: tiles are of few rows mostly.
  if (p.tiles != nullptr) return launch_decode_of<Format, 2, true>(p, stream);
  if (p.rows <= 4) {
    if (p.end.gated) return launch_decode_of<Format, 2>(p, stream);  // one of each target
    return launch_decode_of<Format, few>(p, stream);
  }
  return launch_decode_of<Format, many>(p, stream);
}

}  // namespace llminfer::cuda
