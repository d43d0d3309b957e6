// The packed form of a weight matrix, "P16": the same for every instruction set, the same bits as the file's rows.
//
// A panel is 16 rows, the last one padded with zero bytes. Each block of a row (32 or 256 weights; 2 for 16-bit floats,
// 1 for f32) is cut into 4-byte words and small fields of 1 or 2 bytes (scales). A panel is then
//   words plane   for each block, for each word: one 64-byte line, word of row 0, of row 1, ... of row 15
//   small plane   for each block, for each small field: that field of rows 0 .. 15; the plane padded to 64 bytes
// so that one vector holds the same word of 8 or 16 rows, and results of 16 rows lie side by side.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <llminfer/weight_type.hpp>

namespace llminfer::cpu {

constexpr int panel_rows = 16;
constexpr std::size_t line_bytes = 64;

/// Bytes [offset, offset + bytes) of a block.
struct BlockField {
  std::uint16_t offset = 0;
  std::uint16_t bytes = 0;
};

/// How blocks of one type are cut. Fields cover the block exactly; unused entries have 0 bytes.
struct PanelLayout {
  std::uint32_t block_weights = 1;
  std::uint32_t block_bytes = 1;
  std::array<BlockField, 3> words{};   ///< lengths are multiples of 4
  std::array<BlockField, 2> smalls{};  ///< 1 or 2 bytes each

  constexpr std::uint32_t word_count() const noexcept {
    return (std::uint32_t{words[0].bytes} + words[1].bytes + words[2].bytes) / 4;
  }
  constexpr std::uint32_t small_bytes() const noexcept { return std::uint32_t{smalls[0].bytes} + smalls[1].bytes; }
  constexpr bool empty() const noexcept { return word_count() + small_bytes() == 0; }
};

/// Layout of a type; one without fields for as_stored.
const PanelLayout& layout_of(WeightType type) noexcept;

/// Sizes of one packed matrix.
struct PackedShape {
  WeightType type = WeightType::f32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t blocks = 0;       ///< per row
  std::int64_t row_bytes = 0;    ///< of the unpacked row
  std::int64_t panels = 0;       ///< ceil(rows / 16)
  std::int64_t small_plane = 0;  ///< offset of the small plane in a panel
  std::int64_t panel_bytes = 0;
};

/// Columns must be a multiple of the type's block size; sizes must have been checked to fit (see weights.cpp).
PackedShape packed_shape(WeightType type, std::int64_t rows, std::int64_t columns) noexcept;

/// Packs `count` (1 .. 16) rows, each shape.row_bytes long and adjacent, into one panel.
void pack_panel(const PackedShape& shape, const std::byte* rows, int count, std::byte* panel) noexcept;

/// Blocks [first, first + count) of one row of a panel, back in the file's form (whole blocks of the layout).
void unpack_blocks(const PackedShape& shape, const std::byte* panel, int lane, std::int64_t first, std::int64_t count,
                   std::byte* out) noexcept;

/// One row of a panel in the file's form: shape.row_bytes bytes.
void unpack_row_bytes(const PackedShape& shape, const std::byte* panel, int lane, std::byte* out) noexcept;

}  // namespace llminfer::cpu
