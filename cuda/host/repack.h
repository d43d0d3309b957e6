// Quantized weights from the file's order into that of mma.sync's A operand (m16n8k16), and back.
//
// Rows are taken in tiles of 16, columns in blocks of 32. Lane l = 4 g + t of a warp holds, for each step of 16
// columns, the pairs (k, k + 1) of rows g and g + 8 at columns 2 t and 2 t + 8: what the instruction wants in its four
// registers.
//   4 bits: a lane's 16 bytes are four steps (64 columns), one 32-bit word a step. Nibbles 0 .. 3 of the word are the
//           first elements of registers 0 .. 3, nibbles 4 .. 7 the second ones, so that masks of 0x000f000f and its
//           shifts cut out a register's pair.
//   fifth bits: a plane of one word a lane and 64 columns: bit 4 s + r of step s and register r for the first element,
//           16 bits further up for the second.
//   8 bits: a lane's 16 bytes are two steps (32 columns), two words a step: bytes 0 and 1 of the first are register 0's
//           pair, 2 and 3 register 1's; the second word has registers 2 and 3. Stored plus 128.
// Scales lie in a plane of their own: for a tile and the columns of a lane's 16 bytes, for g of 0 .. 7, for each block
// of 32 of these columns, those of rows g and g + 8: two halves, then for formats with a minimum two more; MXFP4: two
// bytes. Rows and columns behind the matrix have scale
// 0 (MXFP4: the smallest one, and levels of 0).
#pragma once

#include <llminfer/weight_type.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace llminfer::cuda {

/// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4, and those of repack_super.h.
bool has_fragments(WeightType type) noexcept;

/// Sizes of a repacked matrix: first the levels of all tiles, then (at high_at) their upper bits, then (at scales_at)
/// their scales.
struct FragmentLayout {
  WeightType type = WeightType::q4_0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t chunk = 0;             ///< columns of a lane's 16 bytes
  std::int64_t chunks = 0;            ///< of a row, the last one padded
  std::int64_t blocks = 0;            ///< of 32 columns, padded to whole chunks
  std::int64_t tile_level_bytes = 0;  ///< of 16 rows
  std::int64_t tile_high_bytes = 0;   ///< 0 for most types
  std::int64_t tile_scale_bytes = 0;
  std::int64_t high_at = 0;
  std::int64_t scales_at = 0;
  std::int64_t bytes = 0;
};

/// `type` must have fragments, columns be a multiple of its block.
FragmentLayout fragment_layout(WeightType type, std::int64_t rows, std::int64_t columns) noexcept;

/// The planes of some tiles.
template <class Byte>
struct Planes {
  std::span<Byte> levels{};
  std::span<Byte> high{};
  std::span<Byte> scales{};
};

/// `rows` file rows into tiles (zero before), from their first row on.
void repack_rows(const FragmentLayout& layout, std::span<const std::byte> file, std::int64_t rows,
                 const Planes<std::byte>& planes) noexcept;

/// The inverse.
void unpack_rows(const FragmentLayout& layout, const Planes<const std::byte>& planes, std::int64_t rows,
                 std::span<std::byte> file) noexcept;

}  // namespace llminfer::cuda
