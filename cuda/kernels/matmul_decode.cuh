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

template <class Format, int Groups, int Warps>
__device__ void decode_store(const MatMulQuantParams& p, const BlockTarget& target, const Sums<1> (&sum)[Groups],
                             DecodeRoom<Groups, Warps>& room, int first_row) {
  const int warp = static_cast<int>(threadIdx.x) / 32, g = static_cast<int>(threadIdx.x) % 32 / 4,
            t = static_cast<int>(threadIdx.x) % 4;
  const int rows = min(8, p.rows - first_row);
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
  const int count = width * rows;
  const auto each = [&](auto&& use) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += 32 * Warps) use(i, i / width, i % width);
  };
  const auto all_warps = [&](int row, int at) {
    float v = 0;
#pragma unroll
    for (int w = 0; w < Warps; ++w) v += room[w][row][at];
    return v;
  };
  const auto store = [&](int row, int at, float v) {
    const int j = target.block * width + at;
    if (j < target.weight.columns_out) store_result(p, target.weight, first_row + row, j, v);
  };
  if (gridDim.z == 1) {
    each([&](int, int row, int at) { store(row, at, all_warps(row, at)); });
    return;
  }
  float* mine = partials_of(p, blockIdx.z, 8 * width);
  each([&](int i, int row, int at) { __stcg(mine + i, all_warps(row, at)); });
  if (!is_last_block(p)) return;
  const float* all = partials_of(p, 0, 8 * width);
  each([&](int i, int row, int at) {
    float v = 0;
    for (unsigned z = 0; z < gridDim.z; ++z) v += __ldcg(all + z * 8 * width + i);
    store(row, at, v);
  });
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

template <class Format, int Groups, int Warps>
__global__ void __launch_bounds__(32 * Warps, Format::blocks(Groups)) matmul_decode_kernel(MatMulQuantParams p) {
  __shared__ DecodeRoom<Groups, Warps> room;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int g = static_cast<int>(threadIdx.x % 32 / 4), t = static_cast<int>(threadIdx.x % 4);
  const BlockTarget target = target_of(p, 64 * Groups, blockIdx.x);
  const int tile = static_cast<int>(blockIdx.y);
  const int first = warp + Warps * static_cast<int>(blockIdx.z), step = Warps * static_cast<int>(gridDim.z);
  const bool there = 8 * tile + g < p.rows, sums_there = 8 * tile + 2 * t < p.rows;
  const std::int64_t group_bytes = p.chunks / Format::piece_chunks * static_cast<std::int64_t>(Format::piece_bytes);
  // Where there is no group any more: the last one again.
  const int groups_left = (target.weight.columns_out + 63) / 64 - target.block * Groups;
  const auto group_at = [&](int h) { return h == 0 ? 0 : min(h, groups_left - 1) * group_bytes; };
  // The lane's levels; from there: scales of its rows, what is behind the piece.
  const std::uint8_t* weight =
      target.weight.weight + target.block * Groups * group_bytes + Format::at(first) + 16 * lane;
  const int to_scales = Format::Levels::bytes + 16 * (g - lane);
  const int to_tail = (Format::piece_chunks - warp % Format::piece_chunks) * Format::chunk_bytes + 16 * (g - lane);
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
#pragma unroll
    for (int h = 0; h < Groups; ++h) {
      const std::uint8_t* at = weight + group_at(h);
      w[h].load(at, at + to_scales, at + to_tail);
    }
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      load_input<Format>(in[block], x + 32 * block, to_rest, sums + width * block, there, sums_there);
    }
#pragma unroll
    for (int h = 0; h < Groups; ++h) {
      add_chunk<Format, 1>(
          w[h], [&](int block) -> const BlockInput<1>& { return in[block]; }, sum[h]);
    }
    if constexpr (Format::minima) {
      if (warp % 4 == 0) {
        GroupSums all[1];
        all[0].load<Format>(sums + width / 8 * g - width / 4 * t, t, there);
#pragma unroll
        for (int h = 0; h < Groups; ++h) {
          const std::uint8_t* tail = weight + group_at(h) + to_tail;
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
  decode_store<Format, Groups, Warps>(p, target, sum, room, 8 * tile);
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
  if (p.rows <= 4) {
    launch_decode_of<Format, few>(p, stream);
  } else {
    launch_decode_of<Format, many>(p, stream);
  }
}

}  // namespace llminfer::cuda
