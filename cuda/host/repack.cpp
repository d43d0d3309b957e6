#include "host/repack.h"

#include <cstring>

#include "quant/legacy.h"

namespace llminfer::cuda {
namespace {

/// Where the level of (row in tile, column in chunk) lies in the 512 bytes of a warp: byte, and shift in it.
struct Place {
  std::size_t byte;
  unsigned shift;
};

Place place_4(std::int64_t row, std::int64_t column) noexcept {
  const std::int64_t step = column / 16, in_step = column % 16;
  const std::int64_t lane = row % 8 * 4 + in_step % 8 / 2;
  const std::int64_t nibble = row / 8 + in_step / 8 * 2 + in_step % 2 * 4;
  return {static_cast<std::size_t>(lane * 16 + step * 4 + nibble / 2), static_cast<unsigned>(nibble % 2 * 4)};
}

Place place_8(std::int64_t row, std::int64_t column) noexcept {
  const std::int64_t step = column / 16, in_step = column % 16;
  const std::int64_t lane = row % 8 * 4 + in_step % 8 / 2;
  return {static_cast<std::size_t>(lane * 16 + step * 8 + in_step / 8 * 4 + row / 8 * 2 + in_step % 2), 0};
}

std::size_t scale_at(std::int64_t block, std::int64_t row) noexcept {
  return static_cast<std::size_t>((block * 8 + row % 8) * 4 + row / 8 * 2);
}

/// Calls f(file block, levels of the chunk, column within it, scale) for each block of a row.
template <class Block, class Byte, class F>
void each_block(const FragmentLayout& l, std::int64_t row, Byte* levels, Byte* scales, F f) {
  Byte* tile_levels = levels + row / 16 * l.tile_level_bytes;
  Byte* tile_scales = scales + row / 16 * l.tile_scale_bytes;
  for (std::int64_t b = 0; b < l.columns / 32; ++b) {
    const std::int64_t column = b * 32;
    f(b, tile_levels + column / l.chunk * 512, column % l.chunk, tile_scales + scale_at(b, row % 16));
  }
}

void pack_4(const FragmentLayout& l, const std::byte* file, std::int64_t row, std::byte* levels, std::byte* scales) {
  each_block<quant::BlockQ4_0>(
      l, row, levels, scales, [&](std::int64_t b, std::byte* at, std::int64_t column, std::byte* scale) {
        const auto block = quant::load_block<quant::BlockQ4_0>(file + b * std::int64_t{sizeof(quant::BlockQ4_0)});
        std::memcpy(scale, &block.d, 2);
        for (unsigned i = 0; i < 32; ++i) {
          const Place p = place_4(row % 16, column + i);
          at[p.byte] |= static_cast<std::byte>(quant::split_nibble(block.qs, 16, i)) << p.shift;
        }
      });
}

void pack_8(const FragmentLayout& l, const std::byte* file, std::int64_t row, std::byte* levels, std::byte* scales) {
  each_block<quant::BlockQ8_0>(
      l, row, levels, scales, [&](std::int64_t b, std::byte* at, std::int64_t column, std::byte* scale) {
        const auto block = quant::load_block<quant::BlockQ8_0>(file + b * std::int64_t{sizeof(quant::BlockQ8_0)});
        std::memcpy(scale, &block.d, 2);
        for (unsigned i = 0; i < 32; ++i) {
          at[place_8(row % 16, column + i).byte] = static_cast<std::byte>(block.qs[i] + 128);
        }
      });
}

void unpack_4(const FragmentLayout& l, const std::byte* levels, const std::byte* scales, std::int64_t row,
              std::byte* file) {
  each_block<quant::BlockQ4_0>(
      l, row, levels, scales, [&](std::int64_t b, const std::byte* at, std::int64_t column, const std::byte* scale) {
        quant::BlockQ4_0 block{};
        std::memcpy(&block.d, scale, 2);
        for (unsigned i = 0; i < 32; ++i) {
          const Place p = place_4(row % 16, column + i);
          const auto level = static_cast<unsigned>(at[p.byte] >> p.shift) & 15U;
          block.qs[i % 16] = static_cast<std::uint8_t>(block.qs[i % 16] | level << (i < 16 ? 0 : 4));
        }
        std::memcpy(file + b * std::int64_t{sizeof(block)}, &block, sizeof(block));
      });
}

void unpack_8(const FragmentLayout& l, const std::byte* levels, const std::byte* scales, std::int64_t row,
              std::byte* file) {
  each_block<quant::BlockQ8_0>(
      l, row, levels, scales, [&](std::int64_t b, const std::byte* at, std::int64_t column, const std::byte* scale) {
        quant::BlockQ8_0 block{};
        std::memcpy(&block.d, scale, 2);
        for (unsigned i = 0; i < 32; ++i) {
          block.qs[i] = static_cast<std::int8_t>(static_cast<int>(at[place_8(row % 16, column + i).byte]) - 128);
        }
        std::memcpy(file + b * std::int64_t{sizeof(block)}, &block, sizeof(block));
      });
}

}  // namespace

bool has_fragments(WeightType type) noexcept { return type == WeightType::q4_0 || type == WeightType::q8_0; }

FragmentLayout fragment_layout(WeightType type, std::int64_t rows, std::int64_t columns) noexcept {
  FragmentLayout l;
  l.type = type;
  l.rows = rows;
  l.columns = columns;
  l.chunk = type == WeightType::q8_0 ? 32 : 64;
  l.chunks = (columns + l.chunk - 1) / l.chunk;
  l.blocks = l.chunks * l.chunk / 32;
  l.tile_level_bytes = l.chunks * 512;
  l.tile_scale_bytes = l.blocks * 32;
  const std::int64_t tiles = (rows + 15) / 16;
  l.scales_at = tiles * l.tile_level_bytes;
  l.bytes = l.scales_at + tiles * l.tile_scale_bytes;
  return l;
}

void repack_rows(const FragmentLayout& l, std::span<const std::byte> file, std::int64_t rows,
                 std::span<std::byte> levels, std::span<std::byte> scales) noexcept {
  const std::int64_t row_bytes = static_cast<std::int64_t>(file.size()) / rows;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::byte* from = file.data() + r * row_bytes;
    if (l.type == WeightType::q8_0) pack_8(l, from, r, levels.data(), scales.data());
    if (l.type == WeightType::q4_0) pack_4(l, from, r, levels.data(), scales.data());
  }
}

void unpack_rows(const FragmentLayout& l, std::span<const std::byte> levels, std::span<const std::byte> scales,
                 std::int64_t rows, std::span<std::byte> file) noexcept {
  const std::int64_t row_bytes = static_cast<std::int64_t>(file.size()) / rows;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::byte* to = file.data() + r * row_bytes;
    if (l.type == WeightType::q8_0) unpack_8(l, levels.data(), scales.data(), r, to);
    if (l.type == WeightType::q4_0) unpack_4(l, levels.data(), scales.data(), r, to);
  }
}

}  // namespace llminfer::cuda
