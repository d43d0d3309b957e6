// Activations in the order of mma.sync's B operand: what the products with repacked weights read.
//
// Activations become halves. A row of them is first divided by a power of two that brings its largest value to [1, 2),
// so that rows of any size fit; the result is multiplied back.
#pragma once

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
  float* block_sums = nullptr;         ///< see block_sum_at and step_sum_at: sums of each block and of its halves
  std::uint16_t* rest = nullptr;       ///< as fragments, what halves left of the values; null where nothing wants it
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
