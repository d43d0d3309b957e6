// Products with quantized weights on tensor cores: weights are the A operand, activations the B operand, so that one
// kernel serves one token and many.
//
// Activations become halves. A row of them is first divided by a power of two that brings its largest value to [1, 2),
// so that rows of any size fit; the result is multiplied back. Levels become halves exactly; each block of 32 columns
// is summed in float and multiplied by its scale.
#pragma once

#include <llminfer/weight_type.hpp>

#include "kernels/elementwise.h"
#include "kernels/launch.h"

namespace llminfer::cuda {

/// What the activations are made of.
enum class FragmentSource : std::int32_t {
  values,  ///< in
  normed,  ///< in / sqrt(mean(in^2) + eps) * weight, as kernels/norms.h
  gated    ///< Elementwise(in, gated.b), as kernels/elementwise.h
};

/// Rows of activations in the order of mma.sync's B operand: for each tile of 8 rows and block of 32 columns, lane
/// 4 g + t has 16 bytes: row g at columns 2 t, 2 t + 8, 2 t + 16, 2 t + 24, two halves each.
struct FragmentsParams {
  const float* in = nullptr;           ///< [rows x columns]
  std::uint16_t* fragments = nullptr;  ///< [tiles x blocks x 32 x 8], zero where there is no row or column
  float* scales = nullptr;             ///< [tiles x 8]
  float* block_sums = nullptr;         ///< see block_sum_at: sums of the 32 values of each block
  std::int32_t rows = 0;
  std::int32_t columns = 0;
  std::int32_t blocks = 0;  ///< of 32 columns, at least columns / 32
  FragmentSource source = FragmentSource::values;
  const float* weight = nullptr;  ///< of the norm: [columns]
  float eps = 0;                  ///< of the norm
  ElementwiseParams gated{};      ///< b, kind and its numbers
};

/// Blocks of fragments for a number of columns: one number for all types of weights, so that products of one value
/// share its fragments.
inline std::int64_t fragment_blocks(std::int64_t columns) { return (columns + 63) / 64 * 2; }

/// Where the sum of a row (of a tile of 8) and block stands: eight blocks of a row are neighbours.
__host__ __device__ inline std::int64_t block_sum_at(int tile, int blocks, int row, int block) {
  const std::int64_t eight = static_cast<std::int64_t>(tile) * ((blocks + 7) / 8) + block / 8;
  return eight * 64 + row * 8 + block % 8;
}

/// Floats of `block_sums`.
inline std::int64_t block_sum_floats(std::int64_t rows, std::int64_t blocks) {
  return (rows + 7) / 8 * ((blocks + 7) / 8) * 64;
}

/// Bytes of `fragments`.
inline std::int64_t fragments_bytes(std::int64_t rows, std::int64_t blocks) { return (rows + 7) / 8 * blocks * 512; }

/// A weight as host/repack.h lays it out, and where its product goes.
struct MatMulTarget {
  const std::uint8_t* levels = nullptr;
  const std::uint8_t* high = nullptr;    ///< bits above the fourth, where the format has them
  const std::uint8_t* scales = nullptr;  ///< of the weight
  const float* bias = nullptr;           ///< [columns_out] or null
  const float* residual = nullptr;       ///< [rows x columns_out] or null: added at the end; may be out
  float* out = nullptr;                  ///< [rows x columns_out]
  std::int32_t columns_out = 0;
};

constexpr int matmul_max_targets = 3;

/// out[r][j] = sum_k in[r][k] * weight[j][k] + bias[j] + residual[r][j], for up to three weights of one type that read
/// the same rows.
struct MatMulQuantParams {
  MatMulTarget targets[matmul_max_targets];
  const std::uint16_t* fragments = nullptr;
  const float* row_scales = nullptr;  ///< of the activations
  const float* block_sums = nullptr;  ///< of the activations
  std::int32_t count = 1;             ///< of weights
  std::int32_t rows = 0;
  std::int32_t chunks = 0;     ///< of a row of weights
  std::int32_t blocks = 0;     ///< of 32 columns, padded to whole chunks
  std::int32_t in_blocks = 0;  ///< FragmentsParams::blocks, at least as many
  WeightType type = WeightType::q4_0;
};

cudaError_t launch(const FragmentsParams& params, cudaStream_t stream);
cudaError_t launch(const MatMulQuantParams& params, cudaStream_t stream);

/// Blocks of 16 rows of all weights.
inline unsigned row_tiles_of(const MatMulQuantParams& p) {
  unsigned tiles = 0;
  for (int n = 0; n < p.count; ++n) tiles += blocks_for(p.targets[n].columns_out, 16);
  return tiles;
}

}  // namespace llminfer::cuda
