// Choosing experts, sorting rows by them, and adding up what they give. Their products: matmul_quant.h, matmul_plain.h.
#pragma once

#include "kernels/fragments.h"
#include "kernels/launch.h"

namespace llminfer::cuda {

enum class RouteGating : std::int32_t { softmax, sigmoid, softmax_selected };

/// Up to eight rows (token * used + choice) that go to one expert.
struct ExpertTile {
  std::int32_t expert = 0;
  std::int32_t rows = 0;  ///< 0: this tile and all behind it are not there
};

/// Tiles of one expert, one behind the other.
constexpr std::int32_t expert_run_tiles = 8;  ///< at most
struct ExpertRun {
  std::int32_t expert = 0;
  std::int32_t first = 0;
  std::int32_t tiles = 0;  ///< 0: this run and all behind it are not there
};

/// All rows by their experts.
struct ExpertTiles {
  ExpertTile* tiles = nullptr;     ///< [count]
  std::int32_t* rows = nullptr;    ///< [count x 8], -1 behind the last row of a tile
  std::int32_t* tokens = nullptr;  ///< the same, of what token
  ExpertRun* runs = nullptr;       ///< [run_count], or null: not wanted
  std::int32_t count = 0;          ///< expert_tiles()
  std::int32_t run_count = 0;      ///< expert_runs(), 0 without
};

constexpr std::int32_t most_experts_sorted = 1024;

/// The most tiles that there can be.
inline std::int64_t expert_tiles(std::int64_t tokens, std::int64_t used, std::int64_t experts) {
  const std::int64_t rows = tokens * used;
  return rows < experts + rows / 8 ? rows : experts + rows / 8;
}

/// The most runs of `tiles` tiles.
inline std::int64_t expert_runs(std::int64_t tiles, std::int64_t experts) {
  const std::int64_t more = experts + tiles / expert_run_tiles;
  return tiles < more ? tiles : more;
}

/// For each row the best `used` of `experts` scores, lower ids first on ties: out holds `used` ids, then their weights.
/// With `bias` the choice is by score + bias, the weight by score alone.
struct RouteParams {
  const float* in = nullptr;     ///< [rows x experts]
  const float* bias = nullptr;   ///< [experts] or null
  float* out = nullptr;          ///< [rows x 2 used]
  ExpertTiles sorted{};          ///< made too if `tiles` is not null, of at most most_experts_sorted experts
  unsigned* arrivals = nullptr;  ///< [1] for that, zero before and after
  std::int32_t rows = 0;
  std::int32_t experts = 0;
  std::int32_t used = 0;
  RouteGating gating = RouteGating::softmax;
  bool normalize = false;  ///< divide the weights by their sum
  float scale = 1;         ///< then multiply them
};

/// out[r][i] = sum_s weight[r][s] * in[r][s][i] + residual[r][i]
struct CombineParams {
  const float* in = nullptr;        ///< [rows x used x width]
  const float* route = nullptr;     ///< [rows x 2 used]
  const float* residual = nullptr;  ///< [rows x width] or null; may be out
  float* out = nullptr;             ///< [rows x width]
  FragmentsParams next{};           ///< of `out`, made by the last block of eight rows; in null: none
  unsigned* arrivals = nullptr;     ///< [tiles of 8 rows] for that, zero before and after
  std::int32_t rows = 0;
  std::int32_t used = 0;
  std::int32_t width = 0;
};

cudaError_t launch(const RouteParams& params, cudaStream_t stream);
cudaError_t launch(const CombineParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
