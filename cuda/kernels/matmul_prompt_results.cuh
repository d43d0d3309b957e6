// How a product of many rows of activations (matmul_prompt.cuh) ends.
#pragma once

#include "kernels/matmul_prompt_block.cuh"

namespace llminfer::cuda {

/// What rows of activations a block has.
struct PromptTiles {
  int first, count;  ///< of tiles
  int expert;

  /// `y`: of the block.
  __device__ PromptTiles(const MatMulQuantParams& p, unsigned y)
      : first(prompt_tiles * static_cast<int>(y)), count((p.rows + 7) / 8 - first), expert(0) {
    if (p.runs != nullptr) {
      const ExpertRun run = p.runs[y];
      first = run.first;
      count = run.tiles;
      expert = run.expert;
    }
    count = min(count, prompt_tiles);
  }
  /// `row`: of the block. False where there is none.
  __device__ bool result(const MatMulQuantParams& p, int row, ResultRow& to) const {
    const int at = 8 * first + row;
    if (row >= 8 * count || at >= p.rows) return false;
    to = plain_row(at);
    if (p.runs == nullptr) return true;
    to.to = p.tile_rows[at];
    to.bias = static_cast<std::int64_t>(expert) * p.targets[0].columns_out;
    return to.to >= 0;
  }
};

/// Sums of the warps of a block, which take the place of the stages: 64 of each lane.
template <class Format>
struct PromptResults {
  static constexpr int count = 8 * prompt_tiles, floats = 8 * count * 32;
  static constexpr int gated_ahead = 4;  // warps: the second target's for the same results
  float* room;
  int warp, lane;

  __device__ void put(const PromptSums& sum) const {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      room[(warp * count + i) * 32 + lane] = sum[i / 4 / prompt_tiles][i / 4 % prompt_tiles][i % 4];
    }
  }
  __device__ static constexpr int at(int tile, int n, int e) { return ((tile * prompt_tiles + n) * 4 + e) * 32; }
  /// `first`: of the warp's rows of weights. `sum(i)`: of this warp's, or further on of those of the second target.
  template <class Sum>
  __device__ void store(const MatMulQuantParams& p, const MatMulTarget& target, const PromptTiles& tiles, int first,
                        Sum sum) const {
    constexpr Unit end = prompt_end<Format>();
    first += lane / 4;
#pragma unroll 1
    for (int i = 0; i < 2 * tiles.count; ++i) {
      const int n = i / 2, odd = i % 2;
      ResultRow row;
      if (!tiles.result(p, 8 * n + lane % 4 * 2 + odd, row)) continue;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int j = first + 8 * k, from = at(k / 2, n, k % 2 * 2 + odd);
        const float unit = k % 2 == 0 ? end.first : end.second;
        if (j >= target.columns_out) break;
        if (!p.end.gated) {
          store_result(p, target, row, j, sum(from) * unit);
        } else {
          store_gated(p, row, j, sum(from) * unit, sum(from + gated_ahead * count * 32) * unit);
        }
      }
    }
  }
  /// Whether this block has stored results: of those that share columns it is the last one.
  __device__ bool store_all(const MatMulQuantParams& p, const BlockTarget& target, const PromptTiles& tiles) const {
    const int first = target.block * (p.end.gated ? prompt_rows / 2 : prompt_rows) + 32 * warp;
    const bool stores = first < target.weight.columns_out && (!p.end.gated || warp < gated_ahead);
    const float* mine = room + warp * count * 32 + lane;
    if (gridDim.z == 1) {
      if (stores) store(p, target.weight, tiles, first, [&](int i) { return mine[i]; });
      return true;
    }
    const int from = warp * count * 32 + lane;
    float* left = partials_of(p, blockIdx.z, floats) + from;
    if (stores || p.end.gated) {
#pragma unroll 1
      for (int n = 0; n < tiles.count; ++n) {
#pragma unroll
        for (int i = 0; i < 8; ++i) __stcg(left + at(i / 4, n, i % 4), mine[at(i / 4, n, i % 4)]);
      }
    }
    if (!is_last_block(p)) return false;
    const float* all = partials_of(p, 0, floats) + from;
    if (stores) {
      store(p, target.weight, tiles, first, [&](int i) {
        float v = 0;
        for (unsigned z = 0; z < gridDim.z; ++z) {  // own ones are still here
          v += z == blockIdx.z ? mine[i] : __ldcg(all + z * floats + i);
        }
        return v;
      });
    }
    return true;
  }
};

}  // namespace llminfer::cuda
