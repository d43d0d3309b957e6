// Activations in the order of mma.sync's B operand: what the products with repacked weights read.
//
// Activations become halves. A row of them is first divided by a power of two that brings its largest value to [1, 2),
// so that rows of any size fit; the result is multiplied back. With a norm, what it makes of the rows is taken.
#pragma once

#include "kernels/launch.h"

namespace llminfer::cuda {

/// Rows of activations in the order of mma.sync's B operand: for each tile of 8 rows and block of 32 columns, lane
/// 4 g + t has 16 bytes: row g at columns 2 t, 2 t + 8, 2 t + 16, 2 t + 24, two halves each.
struct FragmentsParams {
  const float* in = nullptr;                  ///< [rows x columns]
  const std::int32_t* rows_wanted = nullptr;  ///< [rows], row r is entry r of it, none if negative, at the end of a
                                              ///< tile; or null: r itself
  std::uint16_t* fragments = nullptr;         ///< [tiles x blocks x 32 x 8], zero where there is no column
  float* scales = nullptr;                    ///< [tiles x 8]
  float* block_sums = nullptr;                ///< see block_sum_at and step_sum_at: of each block and of its halves
  std::uint16_t* rest = nullptr;              ///< as fragments, what halves left of the values; or null
  const float* weight = nullptr;              ///< [columns], or null: no norm. As kernels/norms.h
  float* out = nullptr;                       ///< [rows x columns], what the norm makes; or null
  float eps = 0;                              ///< of the norm
  std::int32_t rows = 0;
  std::int32_t columns = 0;
  std::int32_t blocks = 0;  ///< of 32 columns, at least columns / 32
};

/// Blocks of fragments for a number of columns: one number for all types of weights, so that products of one value
/// share its fragments.
inline std::int64_t fragment_blocks(std::int64_t columns) { return (columns + 63) / 64 * 2; }

/// Where the sum of a row (of a tile of 8) and block stands: those of eight rows are neighbours.
__host__ __device__ inline std::int64_t block_sum_at(int tile, int blocks, int row, int block) {
  return (static_cast<std::int64_t>(tile) * blocks + block) * 8 + row;
}
/// Where sums of 16 columns begin, behind those of 32, and where the two of a row and block stand behind that.
__host__ __device__ inline std::int64_t step_sums_at(int rows, int blocks) {
  return static_cast<std::int64_t>((rows + 7) / 8) * blocks * 8;
}
__host__ __device__ inline std::int64_t step_sum_at(int tile, int blocks, int row, int block) {
  return 2 * block_sum_at(tile, blocks, row, block);
}

/// Floats of `block_sums`.
inline std::int64_t block_sum_floats(std::int64_t rows, std::int64_t blocks) { return (rows + 7) / 8 * blocks * 24; }

/// Bytes of `fragments`.
inline std::int64_t fragments_bytes(std::int64_t rows, std::int64_t blocks) { return (rows + 7) / 8 * blocks * 512; }

cudaError_t launch(const FragmentsParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
