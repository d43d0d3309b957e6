// Activations of many columns in shared memory, in the order in which lanes read them.
#pragma once

#include "kernels/copy_async.cuh"
#include "kernels/matmul_chunk.cuh"

namespace llminfer::cuda {

/// What of a tile of 8 rows of activations a stage of `Blocks` times 32 columns has: fragments, then sums.
/// `Padded`: behind each 32 sums there is room of 8 floats, since minima want those of four blocks of a row at once,
/// which would share banks.
template <class Format, int Blocks, int Threads, bool Sums, bool Padded>
struct Stage {
  static constexpr int blocks = Blocks, threads = Threads;
  static constexpr bool sums = Sums, rests = Format::floats;
  static constexpr int width = Format::Scales::groups == 2 ? 16 : 8;  // floats of a block of 32 columns
  static constexpr int half = blocks * 512;
  static constexpr int fragments = (rests ? 2 : 1) * half;  // with what halves left of them behind
  static constexpr int pad = Padded ? 8 : 0;
  static constexpr int all_sums = blocks * width;
  static constexpr int bytes = fragments + (sums ? (all_sums + (all_sums / 32 - 1) * pad) * 4 : 0);
  __device__ static int sum_at(int n) { return n + n / 32 * pad; }
  /// A thread has 16 bytes of a tile, of so many tiles at once.
  static constexpr int pieces = half / 16, together = threads / pieces;
  static_assert(together >= 1 && (together == 1 || !sums));
};

/// Copies blocks of `stage` that there are, of `tiles` tiles; one behind the last row of activations is another one
/// again.
template <class S>
__device__ void copy_stage(const MatMulQuantParams& p, std::byte* to, int first_tile, int tiles, int stage) {
  const int first = stage * S::blocks, last_tile = (p.rows + 7) / 8 - 1;
  const int blocks = min(S::blocks, p.in_blocks - first);
  const int own = static_cast<int>(threadIdx.x) / S::pieces, at = static_cast<int>(threadIdx.x) % S::pieces * 16;
  const auto* sums = p.block_sums + (S::width == 16 ? step_sums_at(p.rows, p.in_blocks) : 0);
  std::int64_t from = static_cast<std::int64_t>(min(first_tile + own, last_tile)) * p.in_blocks + first;
  to += own * S::bytes + at;
#pragma unroll 1
  for (int tile = own; tile < tiles; tile += S::together, to += S::together * S::bytes) {
    if (at < blocks * 512) {
      copy_async_16(to, reinterpret_cast<const std::byte*>(p.fragments) + from * 512 + at);
      if constexpr (S::rests) {
        copy_async_16(to + S::half, reinterpret_cast<const std::byte*>(p.rest) + from * 512 + at);
      }
    }
    if constexpr (S::sums) {
      if (at < blocks * S::width * 4) {
        copy_async_16(to - at + S::fragments + 4 * S::sum_at(at / 4), sums + from * S::width + at / 4);
      }
    }
    if (first_tile + tile + S::together <= last_tile) from += S::together * p.in_blocks;
  }
}

/// Makes sums of two bfloat16 of the sums of two halves that this thread has copied.
template <class S>
__device__ void split_stage(const MatMulQuantParams& p, std::byte* stage_at, int tiles, int stage) {
  const int blocks = min(S::blocks, p.in_blocks - stage * S::blocks);
  const int own = static_cast<int>(threadIdx.x) / S::pieces, at = static_cast<int>(threadIdx.x) % S::pieces * 16;
  if (at >= blocks * 512) return;
  stage_at += own * S::bytes + at;
#pragma unroll 1
  for (int tile = own; tile < tiles; tile += S::together, stage_at += S::together * S::bytes) {
    auto& x = *reinterpret_cast<uint4*>(stage_at);
    auto& y = *reinterpret_cast<uint4*>(stage_at + S::half);
    uint4 upper = x, rest = y;
    split_bf16(upper.x, rest.x, upper.x, rest.x);
    split_bf16(upper.y, rest.y, upper.y, rest.y);
    split_bf16(upper.z, rest.z, upper.z, rest.z);
    split_bf16(upper.w, rest.w, upper.w, rest.w);
    x = upper;
    y = rest;
  }
}

}  // namespace llminfer::cuda
