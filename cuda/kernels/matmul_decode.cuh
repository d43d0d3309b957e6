// Products of up to eight rows of activations. A warp works on 64 rows of weights (or twice that) at a time and takes
// every eighth chunk of their columns; the sums of the warps meet in shared memory and are added in the order of the
// warps, so that results are the same bits every time. Weights and activations go from memory to registers; of both all
// loads of a chunk are under way at once.
#pragma once

#include "kernels/matmul_chunk.cuh"

namespace llminfer::cuda {

/// Sums of the warps of a block, for each row of activations those of the rows of weights. Four floats more shift the
/// banks of rows by a quarter: lanes write without conflicts.
template <int Groups, int Warps>
using DecodeRoom = float[Warps][8][64 * Groups + 4];

/// A tile of rows of activations.
struct RowTile {
  int number, rows;  ///< rows may be more than 8: of all tiles from this one on
  int expert;

  __device__ RowTile(const MatMulQuantParams& p, int n) : number(n), rows(p.rows - 8 * n), expert(0) {
    if (p.tiles == nullptr) return;
    rows = p.tiles[n].rows;
    expert = p.tiles[n].expert;
  }
  __device__ ResultRow result(const MatMulQuantParams& p, int row) const {
    const int at = 8 * number + row;
    if (p.tiles == nullptr) return plain_row(at);
    return {at, p.tile_rows[at], static_cast<std::int64_t>(expert) * p.targets[0].columns_out};
  }
};

/// Whether the block has stored results.
template <class Format, int Groups, int Warps>
__device__ bool decode_store(const MatMulQuantParams& p, const BlockTarget& target, const Sums<1> (&sum)[Groups],
                             DecodeRoom<Groups, Warps>& room, const RowTile& tile) {
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
  const auto each = [&](int columns_log, auto&& use) {
    const int count = rows << columns_log;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < count; i += 32 * Warps) {
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
  const auto store_all = [&](auto&& sum) {
    if (!gated) {
      each(width_log, [&](int row, int at) {
        const int j = target.block * width + at;
        if (j < target.weight.columns_out) store_result(p, target.weight, tile.result(p, row), j, sum(row, at));
      });
    } else {
      each(width_log - 1, [&](int row, int at) {
        const int j = target.block * (width / 2) + at;
        if (j < target.weight.columns_out) {
          store_gated(p, tile.result(p, row), j, sum(row, at), sum(row, at + width / 2));
        }
      });
    }
  };
  if (gridDim.z == 1) {
    store_all(all_warps);
    return true;
  }
  float* mine = partials_of(p, blockIdx.z, 8 * width);
  each(width_log, [&](int row, int at) { __stcg(mine + row * width + at, all_warps(row, at)); });
  if (!is_last_block(p)) return false;
  const float* all = partials_of(p, 0, 8 * width);
  store_all([&](int row, int at) {
    float v = 0;
#pragma unroll 4
    for (unsigned z = 0; z < gridDim.z; ++z) v += __ldcg(all + z * 8 * width + row * width + at);
    return v;
  });
  return true;
}

/// `x`: the lane's fragment; `to_rest`: from there to what halves left of it; `sums`: of rows 2 t and 2 t + 1, both of
/// a block. Rows behind the last one are not read: with one row that is seven eighths of the requests.
template <class Format>
__device__ void load_input(BlockInput<1>& in, const uint4* x, std::int64_t to_rest, const float* sums, bool there,
                           bool sums_there) {
  if (there) {
    in.x[0] = __ldg(x);
    if constexpr (Format::floats) in.rest[0] = __ldg(x + to_rest);
  }
  if constexpr (Format::sums) {
    if (sums_there) {
      if constexpr (Format::Scales::groups == 2) {
        in.sums[0] = __ldg(reinterpret_cast<const float4*>(sums));
      } else {
        const float2 v = __ldg(reinterpret_cast<const float2*>(sums));
        in.sums[0].x = v.x;
        in.sums[0].y = v.y;
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

template <class Format, int Groups, int Warps>
__global__ void __launch_bounds__(32 * Warps, Format::blocks(Groups)) matmul_decode_kernel(MatMulQuantParams p) {
  __shared__ DecodeRoom<Groups, Warps> room;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int g = static_cast<int>(threadIdx.x % 32 / 4), t = static_cast<int>(threadIdx.x % 4);
  const BlockTarget target = target_of(p, 64 * Groups, blockIdx.x);
  const int tile = static_cast<int>(blockIdx.y);
  const RowTile row_tile(p, tile);
  if (row_tile.rows == 0) return;
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
  const uint4* x = reinterpret_cast<const uint4*>(p.fragments) +
                   (static_cast<std::int64_t>(tile) * p.in_blocks + 2 * first) * 32 + lane;
  const std::int64_t to_rest = reinterpret_cast<const uint4*>(p.rest) - reinterpret_cast<const uint4*>(p.fragments);
  // Floats of a block of 32 columns, a fourth of them the lane's.
  constexpr int width = Format::Scales::groups == 2 ? 16 : 8;
  const float* sums = p.block_sums + (width == 16 ? step_sums_at(p.rows, p.in_blocks) : 0) +
                      (static_cast<std::int64_t>(tile) * p.in_blocks + 2 * first) * width + width / 4 * t;

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
      load_input<Format>(in[block], x + 32 * block, to_rest, sums + width * block, there != 0, sums_there != 0);
    }
#pragma unroll
    for (int h = 0; h < Groups; ++h) {
      add_chunk<Format, 1>(
          w[h], [&](int block) -> const BlockInput<1>& { return in[block]; }, sum[h]);
    }
    if constexpr (Format::minima) {
      if (warp % 4 == 0) {
        GroupSums all[1];
        all[0].load<Format>(sums + width / 8 * g - width / 4 * t, t, there != 0);
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
    sums += static_cast<std::int64_t>(step) * 2 * width;
  }
  unsigned number = blockIdx.x, y = blockIdx.y;
  asm volatile("" : "+r"(number), "+r"(y));  // found again, so that they take no registers before
  const RowTile to_tile(p, static_cast<int>(y));
  const BlockTarget to = target_of(p, 64 * Groups, number);
  if (decode_store<Format, Groups, Warps>(p, to, sum, room, to_tile)) make_next<Warps>(p, to_tile.number, 1, room);
}

template <class Format, int Groups>
void launch_decode_of(const MatMulQuantParams& p, cudaStream_t stream) {
  constexpr int warps = Format::narrow || Groups == 4 ? 4 : 8;
  const unsigned blocks = row_blocks_of(p, 64 * Groups), tiles = blocks_for(p.rows, 8);
  const unsigned splits = splits_of(p, blocks * tiles, p.chunks / warps);
  matmul_decode_kernel<Format, Groups, warps><<<dim3(blocks, tiles, splits), 32 * warps, 0, stream>>>(p);
}

template <class Format>
void launch_decode(const MatMulQuantParams& p, cudaStream_t stream) {
  constexpr int few = Format::wide ? 2 : 1;
  // With more rows activations are what is read most: more rows of weights share them.
  constexpr int many = Format::Levels::bytes == 1024 ? 4 : 2;
  if ((p.tiles == nullptr ? p.rows : p.most_tile_rows) <= 4) {
    if (p.end.gated) return launch_decode_of<Format, 2>(p, stream);  // one of each target
    launch_decode_of<Format, few>(p, stream);
  } else {
    launch_decode_of<Format, many>(p, stream);
  }
}

}  // namespace llminfer::cuda
