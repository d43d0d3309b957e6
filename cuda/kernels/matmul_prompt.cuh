// Products of many rows of activations. A block makes 256 rows of weights by 64 of activations, each of its eight warps
// 32 rows of weights: they are unpacked in registers once for all 64. Activations of 256 columns at a time are copied
// to shared memory while those before are worked on, weights are loaded a chunk ahead of their use.
#pragma once

#include "kernels/matmul_prompt_block.cuh"
#include "kernels/matmul_prompt_results.cuh"

namespace llminfer::cuda {

/// A warp's way along the columns of 32 rows of weights.
template <class Format>
struct PromptWarp {
  const std::uint8_t* weight;  // of the group of 64 rows
  int chunks, lane;
  bool second;  // half of them
  Chunk<Format> held;
  PromptSums sum;

  /// With floats a block of it.
  __device__ void load(int chunk, int block = 0) {
    if (chunk >= chunks) return;
    const std::uint8_t* at = weight + Format::at(chunk);
    if constexpr (Format::floats) {
      held.levels.load_two(at + 16 * lane, second, block);
    } else {
      const int g16 = lane / 4 * 16;
      held.levels.load_two(at + 16 * lane, second);
      held.scales.load_two(at + Format::Levels::bytes + g16, second);
      if constexpr (Format::Scales::super) {
        const std::uint8_t* piece = weight + static_cast<std::int64_t>(chunk / 4) * Format::piece_bytes;
        held.scales.d.load_two(piece + 4 * Format::chunk_bytes + g16, second);
      }
    }
  }
  /// The chunk that is held; then `next` is. `at`: of the lane, in the stage.
  __device__ void add(const std::byte* at, int tiles, int next) {
    PromptBlock<Format> block[whole_scales<Format> ? 2 : 1];
    block[0].template make<0>(held);
    if constexpr (whole_scales<Format>) {
      block[1].template make<1>(held);
      load(next);
      add_blocks(block, at, tiles);
    } else {
      add_blocks(block, at, tiles);
      if constexpr (Format::floats) load(next, 0);
      block[0].template make<1>(held);
      if constexpr (!Format::floats) load(next);
      add_blocks(block, at + 512, tiles);
      if constexpr (Format::floats) load(next, 1);
    }
  }
  template <int Blocks>
  __device__ void add_blocks(const PromptBlock<Format> (&block)[Blocks], const std::byte* at, int tiles) {
    using S = PromptStage<Format>;
#pragma unroll
    for (int n = 0; n < prompt_tiles; ++n) {
      if (n % prompt_together == 0 && n >= tiles) break;
      if constexpr (Format::floats) {
        add_floats<Format>(block[0], at + n * S::bytes, sum, n);
      } else {
        add_scaled<Format>(block, at + n * S::bytes, sum, n);
      }
    }
  }
};

/// Bytes of shared memory.
template <class Format>
constexpr int prompt_shared() {
  const int stages = 2 * prompt_tiles * PromptStage<Format>::bytes, sums = 4 * PromptResults<Format>::floats;
  return stages > sums ? stages : sums;
}

template <class Format>
__global__ void __launch_bounds__(prompt_threads, 1) matmul_prompt_kernel(MatMulQuantParams p) {
  using S = PromptStage<Format>;
  extern __shared__ uint4 room[];
  const PromptTiles tiles(p, blockIdx.y);
  if (tiles.count <= 0) return;
  constexpr int stage_bytes = prompt_tiles * S::bytes, stage_chunks = S::blocks / 2;
  const int step = stage_chunks * static_cast<int>(gridDim.z);
  const std::int64_t group_bytes = p.chunks / Format::piece_chunks * static_cast<std::int64_t>(Format::piece_bytes);

  PromptWarp<Format> w;
  {
    const BlockTarget target = target_of(p, prompt_rows, blockIdx.x);
    w.weight = target.weight.weight + tiles.expert * p.expert_bytes +
               group_at(p, target, prompt_rows / 64, static_cast<int>(threadIdx.x / 64), group_bytes);
  }
  w.chunks = p.chunks;
  w.lane = static_cast<int>(threadIdx.x % 32);
  w.second = threadIdx.x / 32 % 2 != 0;
#pragma unroll
  for (int i = 0; i < 8 * prompt_tiles; ++i) w.sum[i / 4 / prompt_tiles][i / 4 % prompt_tiles][i % 4] = 0;
  w.held.prepare(Hidden{static_cast<unsigned>(p.rows) >> 31});

  auto* shared = reinterpret_cast<std::byte*>(room);
  int chunk = stage_chunks * static_cast<int>(blockIdx.z), buffer = 0;  // bytes behind `shared`
  const int copied = (tiles.count + prompt_together - 1) / prompt_together * prompt_together;
  if (chunk < p.chunks) copy_stage<S>(p, shared, tiles.first, copied, chunk / stage_chunks);
  commit_copies();
  w.load(chunk);
  if constexpr (Format::floats) w.load(chunk, 1);
#pragma unroll 1
  while (chunk < p.chunks) {
    if (chunk + step < p.chunks) {
      copy_stage<S>(p, shared + (stage_bytes - buffer), tiles.first, copied, (chunk + step) / stage_chunks);
    }
    commit_copies();
    PromptMinima<Format> minima;
    if constexpr (S::sums) minima.load(w.weight, chunk, p.chunks, w.lane, w.second);
    wait_for_copies<1>();
    std::byte* at = shared + buffer;
    if constexpr (Format::floats) {
      if constexpr (Format::Levels::bfloat16) split_stage<S>(p, at, copied, chunk / stage_chunks);
    }
    __syncthreads();
    if constexpr (S::sums) minima.add(at, tiles.count, w.lane, w.sum);
    at += 16 * w.lane;
#pragma unroll 1
    do {
      const bool last = chunk % stage_chunks == stage_chunks - 1;
      const int next = chunk + 1 + (last ? step - stage_chunks : 0);
      w.add(at, tiles.count, next);
      chunk = next;
      at += 1024;
    } while (chunk % stage_chunks != 0 && chunk < p.chunks);
    __syncthreads();
    buffer = stage_bytes - buffer;
  }
  wait_for_copies<0>();

  unsigned thread = threadIdx.x, x = blockIdx.x, y = blockIdx.y;
  asm volatile("" : "+r"(thread), "+r"(x), "+r"(y));  // found again, so that they take no registers before
  const PromptResults<Format> results{reinterpret_cast<float*>(room), static_cast<int>(thread / 32),
                                      static_cast<int>(thread % 32)};
  __syncthreads();
  results.put(w.sum);
  __syncthreads();
  const PromptTiles done(p, y);
  if (results.store_all(p, target_of(p, prompt_rows, x), done)) make_next<8>(p, done.first, done.count, room);
}

template <class Format>
cudaError_t launch_prompt(const MatMulQuantParams& p, cudaStream_t stream) {
  const unsigned blocks = row_blocks_of(p, prompt_rows);
  const unsigned tiles = p.runs != nullptr ? static_cast<unsigned>(p.run_count) : blocks_for(p.rows, 8 * prompt_tiles);
  constexpr int stage_chunks = PromptStage<Format>::blocks / 2;
  const unsigned splits = splits_of(p, blocks * tiles, (p.chunks + stage_chunks - 1) / stage_chunks);
  constexpr int shared = prompt_shared<Format>();
  const cudaError_t e =
      cudaFuncSetAttribute(matmul_prompt_kernel<Format>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  if (e != cudaSuccess) return e;
  matmul_prompt_kernel<Format><<<dim3(blocks, tiles, splits), prompt_threads, shared, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
