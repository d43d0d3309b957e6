// Products with repacked weights on tensor cores: weights are the A operand, activations the B operand, so that one
// kernel serves one token and many. Levels become halves exactly; each block of 32 columns is summed in float and
// multiplied by its scale.
#pragma once

#include <llminfer/weight_type.hpp>

#include "kernels/elementwise.h"
#include "kernels/experts.h"
#include "kernels/fragments.h"
#include "kernels/norms.h"
#include "kernels/rope_kv.h"

namespace llminfer::cuda {

/// A weight as host/repack.h lays it out, and where its product goes.
struct MatMulTarget {
  const std::uint8_t* weight = nullptr;  ///< groups of 64 rows
  const float* bias = nullptr;           ///< [columns_out] or null
  const float* residual = nullptr;       ///< [rows x columns_out] or null: added at the end; may be out
  float* out = nullptr;                  ///< [rows x columns_out]
  std::int32_t columns_out = 0;
};

constexpr int matmul_max_targets = 3;

/// Blocks of a cluster: what every GPU takes that has clusters.
constexpr int most_of_any_cluster = 8;

/// Blocks that share rows of weights are at most this many in all.
constexpr int matmul_counters = 256;
/// What they leave of their sums for products of up to `rows` rows.
inline std::int64_t matmul_partial_floats(std::int64_t rows) {
  return matmul_counters * (rows <= 8 ? 2048 : rows <= 16 ? 8192 : 16384);
}

/// What is done with results before they are stored, and after the last one is.
struct MatMulEnd {
  /// Two targets of one width become one: the gate of the first on the second goes to the first's out.
  bool gated = false;
  Gate gate{};
  /// Of the results of the first target, before `next`; in null: none.
  NormAddParams add{};
  /// Of the results of the first target, or what `add` makes of them, in memory that this product does not read; in
  /// null: none.
  FragmentsParams next{};
  /// Of the results of experts, by the last blocks of their columns: instead of `next`, CombineParams::next is made. In
  /// null: none.
  CombineParams combine{};
  unsigned* arrivals = nullptr;         ///< [tiles of 8 rows], zero before and after each launch
  unsigned* column_arrivals = nullptr;  ///< [blocks of 64 columns] for `combine`, the same
  /// Of the results of targets, which are among its inputs: heads are done by the last blocks that make values of them.
  /// Up to 16 rows, heads of 16 values or more; in null: none.
  RopeKvParams heads{};
  unsigned* head_arrivals = nullptr;  ///< [queries.heads + 2 * cache.heads] for `heads`, zero before and after
};

/// Whether a product may do that.
inline bool matmul_takes_heads(const RopeKvParams& p) {
  constexpr std::int32_t most_rows = 16, least = 16;  // so that a block's heads are at most 32, a bit each
  const std::int32_t keys = p.queries.head_width, values = p.cache.sides[1].width;
  return p.queries.rows <= most_rows && keys >= least && values >= least && keys <= rope_kv_max_width &&
         values <= rope_kv_max_width && 2 * p.queries.pairs <= keys && p.cache.sides[0].width == keys;
}

/// out[r][j] = sum_k in[r][k] * weight[j][k] + bias[j] + residual[r][j], for up to three weights of one type that read
/// the same rows.
///
/// With experts the rows are those of all tiles, eight each: every target has a weight and a bias for each expert, one
/// behind the other, and results go where ExpertTiles::rows says.
struct MatMulQuantParams {
  MatMulTarget targets[matmul_max_targets];
  MatMulEnd end{};
  const ExpertTile* tiles = nullptr;          ///< [rows / 8], or null: no experts
  const std::int32_t* tile_rows = nullptr;    ///< [rows]: ExpertTiles::rows
  const std::int32_t* tile_tokens = nullptr;  ///< [rows]: ExpertTiles::tokens, of which the fragments are; or null:
                                              ///< they are of the rows of tiles
  std::int32_t in_rows = 0;                   ///< with experts: of the fragments
  const ExpertRun* runs = nullptr;            ///< [run_count]: the tiles are worked on by runs; or null: one by one
  std::int32_t run_count = 0;
  std::int64_t expert_bytes = 0;  ///< of a weight of one expert
  const std::uint16_t* fragments = nullptr;
  const std::uint16_t* rest = nullptr;  ///< FragmentsParams::rest: of F16 and BF16 weights
  const float* row_scales = nullptr;    ///< of the activations
  const float* block_sums = nullptr;    ///< of the activations
  float* partials = nullptr;            ///< [matmul_partial_floats(rows)] or null: blocks do not share rows
  unsigned* counters = nullptr;         ///< [matmul_counters], zero before and after each product
  std::int32_t count = 1;               ///< of weights
  std::int32_t rows = 0;
  std::int32_t chunks = 0;     ///< of 64 columns of a weight
  std::int32_t in_blocks = 0;  ///< FragmentsParams::blocks, at least two for each chunk
  WeightType type = WeightType::q4_0;
  std::int32_t most_of_cluster = 1;  ///< blocks that the GPU takes as a cluster; 1: it has none
};

cudaError_t launch(const MatMulQuantParams& params, cudaStream_t stream);

/// Blocks of `rows` rows of all weights.
inline unsigned row_blocks_of(const MatMulQuantParams& p, int rows) {
  if (p.end.gated) return blocks_for(p.targets[0].columns_out, rows / 2);
  unsigned blocks = 0;
  for (int n = 0; n < p.count; ++n) blocks += blocks_for(p.targets[n].columns_out, rows);
  return blocks;
}

/// Blocks in all that sharing columns is to make: `each` for each of 128 multiprocessors, but no more than have
/// counters.
inline unsigned blocks_wanted(unsigned each) { return each > 1 ? matmul_counters : matmul_counters / 2; }

/// Whether a product of `rows` rows of activations asks for at most 1.5 times the bytes of its weights (with one
/// row 1.3 times) where `splits` blocks of `block_rows` rows of weights share columns by way of memory. Bytes are those
/// of one row of weights: activations with the sums of their blocks, weights, results, and what splits leave and read.
inline bool requests_hold(const MatMulQuantParams& p, std::int64_t rows, int block_rows, std::int64_t splits) {
  const WeightTypeInfo& type = describe(p.type);
  const std::int64_t columns = 64 * std::int64_t{p.chunks}, weights = columns * type.block_bytes / type.block_size;
  const bool floats = p.type == WeightType::f16 || p.type == WeightType::bf16;
  const std::int64_t activations = rows * columns * (floats ? 33 : 17) / 8 / block_rows;
  // Blocks of 256: six-bit scales as bytes, and d anew for each 64 columns.
  const std::int64_t again = type.block_size == 256 ? columns / 256 * 12 : 0;
  const std::int64_t sums = splits > 1 ? 4 * rows * (2 * splits - 1) : 0;
  const std::int64_t results = 4 * rows + 24;  // with their scales and biases
  return 10 * (activations + again + results + sums) <= (rows == 1 ? 3 : 5) * weights;
}

/// Among how many blocks to share the columns of the same rows of weights, where sums go through memory: as many as
/// make blocks_wanted, but with less than `most` of them could have work for all its warps; from 64 blocks on only as
/// many as leave sums, written and read, of a fifth of the weights' bytes: that is traffic of the second cache, whose
/// rate is not much more than that of memory; and, unless `block_rows` is 0, no more than requests_hold lets. Does not
/// depend on the GPU, so that results do not where none has clusters, nor on whether rows fill a step of recorded
/// launches up to the next power of two.
inline unsigned splits_of(const MatMulQuantParams& p, unsigned blocks, int most, unsigned each = 1,
                          int block_rows = 0) {
  if (p.partials == nullptr || blocks > matmul_counters / 2) return 1;
  const WeightTypeInfo& type = describe(p.type);
  const std::int64_t row_bytes = 64 * std::int64_t{p.chunks} * type.block_bytes / type.block_size;
  // Of the rows that an expert has together; else of those that a step of this size is filled up to.
  std::int64_t rows = p.runs != nullptr ? 8 * expert_run_tiles : 1;
  while (rows < p.rows && (p.tiles == nullptr || rows < 8)) rows *= 2;
  const unsigned wanted = blocks_wanted(each);
  unsigned n = 1;
  while (n < static_cast<unsigned>(most) && (n + 1) * blocks <= wanted) {
    const std::int64_t sums = 4 * rows * (2 * std::int64_t{n} + 1);  // of a row of weights, with one block more
    if (n * blocks >= 64 && 5 * sums > row_bytes) break;
    if (block_rows != 0 && !requests_hold(p, rows, block_rows, n + 1)) break;
    ++n;
  }
  return n;
}

}  // namespace llminfer::cuda
