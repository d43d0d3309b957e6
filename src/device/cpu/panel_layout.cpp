#include "device/cpu/panel_layout.h"

#include <cstring>

#include "quant/iq4.h"
#include "quant/k_quants.h"
#include "quant/legacy.h"
#include "quant/mxfp4.h"

namespace llminfer::cpu {
namespace {

constexpr PanelLayout none_layout{};
constexpr PanelLayout f32_layout{1, 4, {{{0, 4}}}, {}};
constexpr PanelLayout half_layout{2, 4, {{{0, 4}}}, {}};
constexpr PanelLayout q4_0_layout{32, 18, {{{2, 16}}}, {{{0, 2}}}};
constexpr PanelLayout q4_1_layout{32, 20, {{{4, 16}}}, {{{0, 2}, {2, 2}}}};
constexpr PanelLayout q5_0_layout{32, 22, {{{2, 4}, {6, 16}}}, {{{0, 2}}}};
constexpr PanelLayout q5_1_layout{32, 24, {{{4, 4}, {8, 16}}}, {{{0, 2}, {2, 2}}}};
constexpr PanelLayout q8_0_layout{32, 34, {{{2, 32}}}, {{{0, 2}}}};
constexpr PanelLayout q2_k_layout{256, 84, {{{0, 16}, {16, 64}}}, {{{80, 2}, {82, 2}}}};
constexpr PanelLayout q3_k_layout{256, 110, {{{0, 32}, {32, 64}, {96, 12}}}, {{{108, 2}}}};
constexpr PanelLayout q4_k_layout{256, 144, {{{4, 12}, {16, 128}}}, {{{0, 2}, {2, 2}}}};
constexpr PanelLayout q5_k_layout{256, 176, {{{4, 12}, {16, 32}, {48, 128}}}, {{{0, 2}, {2, 2}}}};
constexpr PanelLayout q6_k_layout{256, 210, {{{0, 128}, {128, 64}, {192, 16}}}, {{{208, 2}}}};
constexpr PanelLayout iq4_nl_layout{32, 18, {{{2, 16}}}, {{{0, 2}}}};
constexpr PanelLayout iq4_xs_layout{256, 136, {{{4, 4}, {8, 128}}}, {{{0, 2}, {2, 2}}}};
constexpr PanelLayout mxfp4_layout{32, 17, {{{1, 16}}}, {{{0, 1}}}};

template <class Block>
constexpr bool covers(const PanelLayout& layout) {
  return layout.block_weights == Block::weights && layout.block_bytes == sizeof(Block) &&
         4 * layout.word_count() + layout.small_bytes() == sizeof(Block);
}
static_assert(covers<quant::BlockQ4_0>(q4_0_layout) && covers<quant::BlockQ4_1>(q4_1_layout));
static_assert(covers<quant::BlockQ5_0>(q5_0_layout) && covers<quant::BlockQ5_1>(q5_1_layout));
static_assert(covers<quant::BlockQ8_0>(q8_0_layout) && covers<quant::BlockMxfp4>(mxfp4_layout));
static_assert(covers<quant::BlockQ2K>(q2_k_layout) && covers<quant::BlockQ3K>(q3_k_layout));
static_assert(covers<quant::BlockQ4K>(q4_k_layout) && covers<quant::BlockQ5K>(q5_k_layout));
static_assert(covers<quant::BlockQ6K>(q6_k_layout) && covers<quant::BlockIq4Nl>(iq4_nl_layout));
static_assert(covers<quant::BlockIq4Xs>(iq4_xs_layout));

/// Calls visit(field, word index of its first word) for the word fields, in order.
template <class Visit>
void for_words(const PanelLayout& layout, Visit visit) {
  std::uint32_t line = 0;
  for (const BlockField& field : layout.words) {
    for (std::uint32_t at = 0; at < field.bytes; at += 4) visit(field.offset + at, line++);
  }
}

}  // namespace

const PanelLayout& layout_of(WeightType type) noexcept {
  switch (type) {
    case WeightType::f32:
      return f32_layout;
    case WeightType::f16:
    case WeightType::bf16:
      return half_layout;
    case WeightType::q4_0:
      return q4_0_layout;
    case WeightType::q4_1:
      return q4_1_layout;
    case WeightType::q5_0:
      return q5_0_layout;
    case WeightType::q5_1:
      return q5_1_layout;
    case WeightType::q8_0:
      return q8_0_layout;
    case WeightType::q2_k:
      return q2_k_layout;
    case WeightType::q3_k:
      return q3_k_layout;
    case WeightType::q4_k:
      return q4_k_layout;
    case WeightType::q5_k:
      return q5_k_layout;
    case WeightType::q6_k:
      return q6_k_layout;
    case WeightType::iq4_nl:
      return iq4_nl_layout;
    case WeightType::iq4_xs:
      return iq4_xs_layout;
    case WeightType::mxfp4:
      return mxfp4_layout;
    case WeightType::as_stored:
      break;
  }
  return none_layout;
}

PackedShape packed_shape(WeightType type, std::int64_t rows, std::int64_t columns) noexcept {
  const PanelLayout& layout = layout_of(type);
  const std::int64_t lines = static_cast<std::int64_t>(line_bytes);
  PackedShape shape;
  shape.type = type;
  shape.rows = rows;
  shape.columns = columns;
  shape.blocks = (columns + layout.block_weights - 1) / layout.block_weights;
  shape.row_bytes = columns * layout.block_bytes / layout.block_weights;
  shape.panels = (rows + panel_rows - 1) / panel_rows;
  shape.small_plane = shape.blocks * layout.word_count() * lines;
  const std::int64_t smalls = shape.blocks * layout.small_bytes() * panel_rows;
  shape.panel_bytes = shape.small_plane + (smalls + lines - 1) / lines * lines;
  return shape;
}

void pack_panel(const PackedShape& shape, const std::byte* rows, int count, std::byte* panel) noexcept {
  const PanelLayout& layout = layout_of(shape.type);
  const std::size_t words = layout.word_count(), smalls = layout.small_bytes();
  // Padding rows and the padding of the planes; whole panels are overwritten entirely but for the last few bytes.
  if (count < panel_rows || shape.columns % layout.block_weights != 0) {
    std::memset(panel, 0, static_cast<std::size_t>(shape.panel_bytes));
  } else {
    const std::size_t tail =
        static_cast<std::size_t>(shape.panel_bytes) -
        (static_cast<std::size_t>(shape.small_plane) + static_cast<std::size_t>(shape.blocks) * smalls * panel_rows);
    std::memset(panel + shape.panel_bytes - tail, 0, tail);
  }
  for (int lane = 0; lane < count; ++lane) {
    const std::byte* row = rows + lane * shape.row_bytes;
    for (std::int64_t b = 0; b < shape.blocks; ++b) {
      const std::byte* block = row + b * layout.block_bytes;
      const std::size_t left = static_cast<std::size_t>(shape.row_bytes - b * layout.block_bytes);
      std::byte* lines = panel + static_cast<std::size_t>(b) * words * line_bytes + static_cast<std::size_t>(lane) * 4;
      if (left < layout.block_bytes) {  // an odd row of 16-bit floats ends in half a block
        std::memcpy(lines, block, left);
        continue;
      }
      for_words(layout, [&](std::uint32_t offset, std::uint32_t line) {
        std::memcpy(lines + line * line_bytes, block + offset, 4);
      });
      std::byte* small = panel + shape.small_plane + static_cast<std::size_t>(b) * smalls * panel_rows;
      for (const BlockField& field : layout.smalls) {
        std::memcpy(small + static_cast<std::size_t>(lane) * field.bytes, block + field.offset, field.bytes);
        small += std::size_t{field.bytes} * panel_rows;
      }
    }
  }
}

void unpack_blocks(const PackedShape& shape, const std::byte* panel, int lane, std::int64_t first, std::int64_t count,
                   std::byte* out) noexcept {
  const PanelLayout& layout = layout_of(shape.type);
  const std::size_t words = layout.word_count(), smalls = layout.small_bytes();
  for (std::int64_t b = first; b < first + count; ++b, out += layout.block_bytes) {
    const std::byte* lines =
        panel + static_cast<std::size_t>(b) * words * line_bytes + static_cast<std::size_t>(lane) * 4;
    for_words(layout, [&](std::uint32_t offset, std::uint32_t line) {
      std::memcpy(out + offset, lines + line * line_bytes, 4);
    });
    const std::byte* small = panel + shape.small_plane + static_cast<std::size_t>(b) * smalls * panel_rows;
    for (const BlockField& field : layout.smalls) {
      std::memcpy(out + field.offset, small + static_cast<std::size_t>(lane) * field.bytes, field.bytes);
      small += std::size_t{field.bytes} * panel_rows;
    }
  }
}

void unpack_row_bytes(const PackedShape& shape, const std::byte* panel, int lane, std::byte* out) noexcept {
  const PanelLayout& layout = layout_of(shape.type);
  const std::int64_t whole = shape.row_bytes / layout.block_bytes;
  unpack_blocks(shape, panel, lane, 0, whole, out);
  const std::int64_t rest = shape.row_bytes - whole * layout.block_bytes;
  if (rest > 0) {
    std::byte last[256];  // any block
    unpack_blocks(shape, panel, lane, whole, 1, last);
    std::memcpy(out + whole * layout.block_bytes, last, static_cast<std::size_t>(rest));
  }
}

}  // namespace llminfer::cpu
