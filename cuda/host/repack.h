// Weights from the file's order into that of mma.sync's A operand (m16n8k16), and back.
//
// Rows are taken 64 at a time, as four tiles of 16, columns 64 at a time: a chunk. What belongs to a chunk lies
// together, levels first, then their upper bits, then its scales; formats with blocks of 256 columns have four chunks
// in a piece, and behind them what belongs to all four. In other formats a piece is a chunk. Rows and columns behind
// the matrix are zero.
//
// Lane l = 4 g + t of a warp holds, for each step of 16 columns, the pairs (k, k + 1) of rows g and g + 8 of a tile at
// columns 2 t and 2 t + 8: what the instruction wants in its four registers (fragment_place.h). fragment_levels.h says
// where the bits of a level lie, fragment_scales.h where scales do.
#pragma once

#include <llminfer/weight_type.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace llminfer::cuda {

/// All quantized types of the file format that this library knows, F16 and BF16.
bool has_fragments(WeightType type) noexcept;

/// Sizes of a repacked matrix: pieces of the first 64 rows in the order of their columns, then of the next ones.
struct FragmentLayout {
  WeightType type = WeightType::q4_0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t piece_columns = 0;  ///< 64 or 256
  std::int64_t piece_bytes = 0;    ///< of 64 rows
  std::int64_t pieces = 0;         ///< of 64 rows, the last one padded
  std::int64_t chunks = 0;         ///< of 64 columns
  std::int64_t group_bytes = 0;    ///< of 64 rows
  std::int64_t bytes = 0;
};

/// `type` must have fragments, columns be a multiple of its block (F16 and BF16: of 32).
FragmentLayout fragment_layout(WeightType type, std::int64_t rows, std::int64_t columns) noexcept;

/// `rows` file rows into groups of 64 (zero before), from the first row of the first group on.
void repack_rows(const FragmentLayout& layout, std::span<const std::byte> file, std::int64_t rows,
                 std::span<std::byte> groups) noexcept;

/// The inverse.
void unpack_rows(const FragmentLayout& layout, std::span<const std::byte> groups, std::int64_t rows,
                 std::span<std::byte> file) noexcept;

}  // namespace llminfer::cuda
