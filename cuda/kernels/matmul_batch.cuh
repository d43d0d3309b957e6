// Products of nine to sixteen rows of activations. A block makes 256 rows of weights: four pairs of warps, of 64 rows
// each, and the two of a pair share the columns. Of weights of few bits, beside which activations weigh much, it makes
// 512, 64 in each warp. Activations of 256 columns at a time are copied to shared memory while those before are worked
// on; all warps read them there. Weights go to registers, a chunk ahead of its use, or all of 256 columns if they are
// few bytes.
#pragma once

#include "kernels/matmul_chunk.cuh"
#include "kernels/matmul_heads.cuh"
#include "kernels/matmul_stage.cuh"
#include "kernels/matmul_whole_scales.cuh"

namespace llminfer::cuda {

constexpr int batch_threads = 256, batch_tiles = 2;  // tiles of 8 rows of activations

/// What the two warps of a pair share.
enum class Pair : std::int32_t { columns, weights };
template <Pair Shared>
constexpr int batch_rows = Shared == Pair::weights ? 512 : 256;  // of weights

/// Whether scales are multiplied into levels: of two and three bits, which are few bytes for the instructions that they
/// take. Halves hold those products exactly: 3 times 15, -4 times -32.
template <class Format>
constexpr bool batch_multiplies = Format::Levels::bytes < 2048 && whole_scales<Format>;

/// What a sum is multiplied by in the end.
template <class Format>
__host__ __device__ constexpr Unit batch_end() {
  if (batch_multiplies<Format>) return {power_of_two(24), power_of_two(24)};
  return {Format::first, Format::second};
}

/// The first four warps of a gated product have weights of the first target, so many warps further on are those of the
/// second for the same results.
constexpr int gated_ahead = 4;

constexpr int stage_blocks = 8;  // of 32 columns
template <class Format>
using BatchStage = Stage<Format, stage_blocks, batch_threads, Format::sums || Format::minima,
                         Format::minima && Format::Scales::groups == 2>;

/// `tile`: of the stage.
template <class Format>
__device__ void load_block(BlockInput<batch_tiles>& in, const std::byte* tile, int block, int lane) {
  using S = BatchStage<Format>;
#pragma unroll
  for (int n = 0; n < batch_tiles; ++n, tile += S::bytes) {
    in.x[n] = *reinterpret_cast<const uint4*>(tile + block * 512 + lane * 16);
    if constexpr (Format::floats) {
      in.rest[n] = *reinterpret_cast<const uint4*>(tile + S::half + block * 512 + lane * 16);
    }
    if constexpr (Format::sums) {
      const auto* sums =
          reinterpret_cast<const float*>(tile + S::fragments) + S::sum_at(block * S::width) + S::width / 4 * (lane % 4);
      if constexpr (S::width == 16) {
        in.sums[n] = *reinterpret_cast<const float4*>(sums);
      } else {
        const float2 v = *reinterpret_cast<const float2*>(sums);
        in.sums[n] = make_float4(v.x, v.y, 0, 0);
      }
    }
  }
}

/// A warp's way along the columns of 64 rows of weights.
template <class Format>
struct BatchWarp {
  const std::uint8_t* weight;  // of the group of 64 rows
  int chunks, lane;
  Chunk<Format> held[batch_multiplies<Format> ? 4 : 2];
  Sums<batch_tiles> sum;

  __device__ const std::uint8_t* tail_of(int chunk) const {
    return weight + static_cast<std::int64_t>(chunk / Format::piece_chunks) * Format::piece_bytes +
           Format::piece_chunks * Format::chunk_bytes;
  }
  __device__ void load(int chunk, Chunk<Format>& to) {
    if (chunk >= chunks) return;
    const int g16 = lane / 4 * 16;
    const std::uint8_t* at = weight + Format::at(chunk);
    to.levels.load(at + 16 * lane);
    to.load_scales(at + Format::Levels::bytes + g16, tail_of(chunk) + g16);
  }
  /// `tile`: of the stage that has the chunk.
  __device__ void add(int chunk, const Chunk<Format>& w, const std::byte* tile) {
    if (chunk >= chunks) return;
    const int first = chunk * 2 % stage_blocks;
    const auto input_of = [&](int block) {
      BlockInput<batch_tiles> in;
      load_block<Format>(in, tile, first + block, lane);
      return in;
    };
    add_chunk<Format, batch_tiles>(w, input_of, sum);
    if constexpr (Format::minima) {
      if (chunk % 4 == 0) add_minima(tail_of(chunk), tile);
    }
  }
  /// Chunk i of a piece, without d.
  __device__ void load_of_piece(const std::uint8_t* piece, int i, Chunk<Format>& to) {
    const std::uint8_t* at = piece + i * Format::chunk_bytes;
    to.levels.load(at + 16 * lane);
    to.scales.load(at + Format::Levels::bytes + lane / 4 * 16);
  }
  /// Where a piece begins, by its first chunk.
  __device__ const std::uint8_t* piece_of(int chunk) const {
    return weight + static_cast<std::int64_t>(chunk / 4) * Format::piece_bytes;
  }
  /// Of formats whose scales are multiplied into levels: a piece, which a stage has whole. Its chunks are held; so are
  /// those of the piece that begins with chunk `next` afterwards.
  __device__ void add_piece(int chunk, int next, const std::byte* tile) {
    const std::uint8_t *ahead = piece_of(next), *tail = tail_of(chunk);
    const bool more = next < chunks;
    SuperScale d;
    d.load(tail + lane / 4 * 16);
    Sums<batch_tiles> products;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint4 x[2][batch_tiles];
#pragma unroll
      for (int n = 0; n < 2 * batch_tiles; ++n) {
        const std::byte* at = tile + n % batch_tiles * BatchStage<Format>::bytes + (2 * i + n / batch_tiles) * 512;
        x[n / batch_tiles][n % batch_tiles] = *reinterpret_cast<const uint4*>(at + lane * 16);
      }
      multiply_whole<Format, batch_tiles>(held[i], x, i == 0, products);
      if (more) load_of_piece(ahead, i, held[i]);
    }
    if constexpr (Format::minima) add_minima(tail, tile);
#pragma unroll
    for (int i = 0; i < 4 * batch_tiles; ++i) {
      add_scaled(sum[i / batch_tiles][i % batch_tiles], d.of(i / batch_tiles),
                 products[i / batch_tiles][i % batch_tiles]);
    }
  }
  __device__ void add_minima(const std::uint8_t* tail, const std::byte* tile) {
    using S = BatchStage<Format>;
    GroupSums all[batch_tiles];
#pragma unroll
    for (int n = 0; n < batch_tiles; ++n) {
      const auto* sums = reinterpret_cast<const float*>(tile + n * S::bytes + S::fragments);
      all[n].template load<Format>(sums + S::width / 8 * (lane / 4), lane % 4, true, S::pad);
    }
    SuperScale dmin;
    dmin.load(tail + 128 + lane / 4 * 16);
    constexpr Unit end = batch_end<Format>();
    const uint4 words = stream16(tail + 256 + 16 * lane);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const TileMinima<Format> minima(word_of(words, i), dmin.of(i), end.first, end.second);
#pragma unroll
      for (int n = 0; n < batch_tiles; ++n) minima.subtract(all[n], sum[i][n]);
    }
  }
};

/// Sums of the warps of a block, which take the place of the stages: 32 of each lane.
template <class Format, Pair Shared>
struct BatchSums {
  static constexpr int count = 16 * batch_tiles;
  float* room;
  int warp, lane;

  __device__ void put(const Sums<batch_tiles>& sum) {
#pragma unroll
    for (int i = 0; i < count; ++i)
      room[(warp * count + i) * 32 + lane] = sum[i / 4 / batch_tiles][i / 4 % batch_tiles][i % 4];
  }
  /// Of both warps of a pair, if they share columns. `ahead`: of the warp that is so many further on.
  __device__ float get(int i, int ahead = 0) const {
    const float* mine = room + ((warp + ahead) * count + i) * 32 + lane;
    if (Shared != Pair::columns) return mine[0];
    const float* even = mine - warp % 2 * count * 32;
    return even[0] + even[count * 32];
  }
  /// Where one of the two leaves what get() gives.
  __device__ float* of_pair(int i, int ahead = 0) const {
    return room + ((warp + ahead - (Shared == Pair::columns ? warp % 2 : 0)) * count + i) * 32 + lane;
  }
  /// Calls f(i) for the sums that this warp is to store: of a pair that shares columns each has half of them.
  template <class F>
  __device__ void each(F f) const {
#pragma unroll 4
    for (int i = Shared == Pair::columns ? warp % 2 : 0; i < count; i += Shared == Pair::columns ? 2 : 1) f(i);
  }
  /// Four at a time, as f(number): number(n) is that of the n-th of them.
  template <class F>
  __device__ void each_four(F f) const {
    constexpr int step = Shared == Pair::columns ? 2 : 1;
#pragma unroll 1
    for (int i = Shared == Pair::columns ? warp % 2 : 0; i < count; i += 4 * step) {
      f([i](int n) { return i + n * step; });
    }
  }
  /// Of `parts` parts of them this one.
  template <class F>
  __device__ void each_of(int part, int parts, F f) const {
    constexpr int step = Shared == Pair::columns ? 2 : 1;
#pragma unroll 1
    for (int i = step * part + (Shared == Pair::columns ? warp % 2 : 0); i < count; i += step * parts) f(i);
  }
  /// `first_row`, `first_column`: of the activations and the warp's rows of weights. `sum(ahead)`: of this warp's
  /// weights, or of those that make the second target.
  template <class Sum>
  __device__ void store(const MatMulQuantParams& p, const MatMulTarget& target, int first_row, int first_column, int i,
                        Sum sum) const {
    const int tile = i / 4 / batch_tiles, n = i / 4 % batch_tiles, upper = i / 2 % 2;
    const int row = first_row + 8 * n + lane % 4 * 2 + i % 2, j = first_column + 16 * tile + 8 * upper + lane / 4;
    if (row >= p.rows || j >= target.columns_out) return;
    constexpr Unit end = batch_end<Format>();
    const float unit = upper == 0 ? end.first : end.second;
    if (!p.end.gated) {
      store_result(p, target, plain_row(row), j, sum(0) * unit);
    } else {
      store_gated(p, plain_row(row), j, sum(0) * unit, sum(gated_ahead) * unit);
    }
  }
};

/// Bytes of shared memory.
template <class Format>
constexpr int batch_shared() {
  const int stages = 2 * batch_tiles * BatchStage<Format>::bytes, sums = 8 * 16 * batch_tiles * 128;
  return stages > sums ? stages : sums;
}

template <class Format, Pair Shared>
__global__ void __launch_bounds__(batch_threads, 1) matmul_batch_kernel(MatMulQuantParams p) {
  using S = BatchStage<Format>;
  constexpr int rows = batch_rows<Shared>;
  extern __shared__ uint4 room[];
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int second = warp % 2;
  const int group_of_block = Shared == Pair::weights ? warp : warp / 2;
  const int first_tile = static_cast<int>(blockIdx.y) * batch_tiles;
  constexpr int stage_bytes = batch_tiles * S::bytes;
  const int stages = (p.chunks + 3) / 4, step = static_cast<int>(gridDim.z);

  BatchWarp<Format> w;
  {
    const BlockTarget target = target_of(p, rows, blockIdx.x);
    w.weight = target.weight.weight +
               group_at(p, target, rows / 64, group_of_block,
                        p.chunks / Format::piece_chunks * static_cast<std::int64_t>(Format::piece_bytes));
  }
  w.chunks = p.chunks;
  w.lane = lane;
#pragma unroll
  for (int i = 0; i < 16 * batch_tiles; ++i) w.sum[i / 4 / batch_tiles][i / 4 % batch_tiles][i % 4] = 0;
#pragma unroll
  for (auto& held : w.held) held.prepare(Hidden{static_cast<unsigned>(p.rows) >> 31});

  auto* shared = reinterpret_cast<std::byte*>(room);
  // Of a stage's four chunks each warp has all, or two.
  const int first_chunk = Shared == Pair::columns ? 2 * second : 0, chunks = Shared == Pair::columns ? 2 : 4;
  int stage = static_cast<int>(blockIdx.z), buffer = 0;
  if (stage < stages) copy_stage<S>(p, shared, first_tile, batch_tiles, stage);
  commit_copies();
  if constexpr (batch_multiplies<Format>) {
    if (stage < stages) {
#pragma unroll
      for (int i = 0; i < 4; ++i) w.load_of_piece(w.piece_of(4 * stage), i, w.held[i]);
    }
  } else {
    w.load(4 * stage + first_chunk, w.held[0]);
  }
  for (; stage < stages; stage += step) {
    if (stage + step < stages) {
      copy_stage<S>(p, shared + (buffer ^ 1) * stage_bytes, first_tile, batch_tiles, stage + step);
    }
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();
    const std::byte* tile = shared + buffer * stage_bytes;
    if constexpr (batch_multiplies<Format>) {
      static_assert(Shared == Pair::weights);  // a warp has all chunks of a piece
      w.add_piece(4 * stage, 4 * (stage + step), tile);
    } else {
#pragma unroll 1
      for (int i = 0; i < chunks; i += 2) {
        const int c = 4 * stage + first_chunk + i;
        w.load(c + 1, w.held[1]);
        w.add(c, w.held[0], tile);
        w.load(i + 2 < chunks ? c + 2 : 4 * (stage + step) + first_chunk, w.held[0]);
        w.add(c + 1, w.held[1], tile);
      }
    }
    __syncthreads();
    buffer ^= 1;
  }
  wait_for_copies<0>();

  BatchSums<Format, Shared> sums{reinterpret_cast<float*>(room), warp, lane};
  __syncthreads();
  sums.put(w.sum);
  __syncthreads();
  unsigned number = blockIdx.x;
  asm volatile("" : "+r"(number));  // found again, so that it takes no registers before
  const BlockTarget target = target_of(p, rows, number);
  const int first_row = 8 * first_tile;
  const int first_column = target.block * (p.end.gated ? rows / 2 : rows) + 64 * group_of_block;
  const bool has_sums = p.end.gated || first_column < target.weight.columns_out;
  const bool stores = first_column < target.weight.columns_out && (!p.end.gated || warp < gated_ahead);
  if (gridDim.z == 1) {
    if (stores) {
      sums.each([&](int i) {
        sums.store(p, target.weight, first_row, first_column, i, [&](int ahead) { return sums.get(i, ahead); });
      });
    }
  } else if (shares_in_cluster()) {
    if (has_sums && Shared == Pair::columns) sums.each([&](int i) { *sums.of_pair(i) = sums.get(i); });
    cluster_barrier();
    if (stores) {
      sums.each_of(static_cast<int>(cluster_rank()), static_cast<int>(cluster_blocks()), [&](int i) {
        sums.store(p, target.weight, first_row, first_column, i,
                   [&](int ahead) { return sum_of_blocks(sums.of_pair(i, ahead)); });
      });
    }
    cluster_barrier();  // no block ends or uses its memory anew before the others have read it
    if (cluster_rank() != 0) return;
  } else {
    constexpr int floats = 8 * 32 * 16 * batch_tiles;
    constexpr int pair = Shared == Pair::columns ? 2 : 1;
    const int mine = warp / pair * sums.count * 32 + lane;
    float* left = partials_of(p, blockIdx.z, floats) + mine;
    if (has_sums) sums.each([&](int i) { __stcg(left + i * 32, sums.get(i)); });
    if (!is_last_block(p)) return;
    const float* all = partials_of(p, 0, floats) + mine;
    if (stores) {
      sums.each_four([&](const auto& number) {  // of four sums
        float v[2][4];
        const auto add = [&](int ahead, float(&sum)[4]) {
          float own[4];  // are still here
#pragma unroll
          for (int n = 0; n < 4; ++n) own[n] = sums.get(number(n), ahead);
          add_left(
              all, floats, own, [&](int n) { return (ahead / pair * sums.count + number(n)) * 32; }, sum);
        };
        add(0, v[0]);
        if (p.end.gated) add(gated_ahead, v[1]);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          sums.store(p, target.weight, first_row, first_column, number(n),
                     [&](int ahead) { return ahead == 0 ? v[0][n] : v[1][n]; });
        }
      });
    }
  }
  finish_heads<8>(p, target.weight, target.block * rows, rows, p.rows, *reinterpret_cast<HeadsRoom<8>*>(room));
  make_next<8>(p, first_tile, batch_tiles, room);
}

template <class Format>
cudaError_t launch_batch(const MatMulQuantParams& p, cudaStream_t stream) {
  constexpr Pair shared_by_pair = Format::Levels::bytes < 2048 ? Pair::weights : Pair::columns;
  const unsigned blocks = row_blocks_of(p, batch_rows<shared_by_pair>), tiles = blocks_for(p.rows, 8 * batch_tiles);
  const Sharing sharing = sharing_of(p, blocks * tiles, batch_rows<shared_by_pair>, (p.chunks + 3) / 4);
  constexpr int shared = batch_shared<Format>();
  if constexpr (shared > 48 * 1024) {
    const cudaError_t e = cudaFuncSetAttribute(matmul_batch_kernel<Format, shared_by_pair>,
                                               cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (e != cudaSuccess) return e;
  }
  return launch_sharing(matmul_batch_kernel<Format, shared_by_pair>, sharing, dim3(blocks, tiles), batch_threads,
                        shared, stream, p);
}

}  // namespace llminfer::cuda
