#include "host/repack.h"

#include <cstring>

#include "host/fragment_place.h"
#include "host/repack_super.h"
#include "quant/iq4.h"
#include "quant/legacy.h"
#include "quant/legacy_pack.h"
#include "quant/mxfp4.h"

namespace llminfer::cuda {
namespace {

/// A block of any of the formats: whole numbers and the bits of its scales.
struct Block32 {
  int levels[32] = {};  // without sign; Q8_0: plus 128
  std::uint16_t d = 0;  // MXFP4: the exponent
  std::uint16_t m = 0;
};

template <class Block>
Block32 read_nibbles(const std::byte* from) noexcept {
  const auto block = quant::load_block<Block>(from);
  Block32 out;
  for (unsigned i = 0; i < 32; ++i) {
    if constexpr (requires { block.qh; }) {
      out.levels[i] = quant::five_bits(block.qh, block.qs, i);
    } else {
      out.levels[i] = quant::split_nibble(block.qs, 16, i);
    }
  }
  if constexpr (requires { block.e; }) {
    out.d = block.e;
  } else {
    out.d = block.d;
  }
  if constexpr (requires { block.m; }) out.m = block.m;
  return out;
}

template <class Block>
void write_nibbles(const Block32& in, std::byte* to) noexcept {
  Block block{};
  if constexpr (requires { block.qh; }) {
    quant::store_levels(in.levels, block.qs, block.qh);
  } else {
    quant::store_levels(in.levels, block.qs);
  }
  if constexpr (requires { block.e; }) {
    block.e = static_cast<std::uint8_t>(in.d);
  } else {
    block.d = in.d;
  }
  if constexpr (requires { block.m; }) block.m = in.m;
  std::memcpy(to, &block, sizeof(block));
}

Block32 read_bytes(const std::byte* from) noexcept {
  const auto block = quant::load_block<quant::BlockQ8_0>(from);
  Block32 out;
  for (unsigned i = 0; i < 32; ++i) out.levels[i] = block.qs[i] + 128;
  out.d = block.d;
  return out;
}

void write_bytes(const Block32& in, std::byte* to) noexcept {
  quant::BlockQ8_0 block{};
  for (unsigned i = 0; i < 32; ++i) block.qs[i] = static_cast<std::int8_t>(in.levels[i] - 128);
  block.d = in.d;
  std::memcpy(to, &block, sizeof(block));
}

/// What is to know of a format.
struct Format {
  WeightType type;
  int block_bytes;
  int chunk;
  int scale_bytes;  // of two rows
  bool high;
  Block32 (*read)(const std::byte*) noexcept;
  void (*write)(const Block32&, std::byte*) noexcept;
};

template <class Block>
constexpr Format nibbles(WeightType type, int scale_bytes, bool high) {
  return {type, sizeof(Block), 64, scale_bytes, high, &read_nibbles<Block>, &write_nibbles<Block>};
}

constexpr Format formats[] = {
    nibbles<quant::BlockQ4_0>(WeightType::q4_0, 4, false),
    nibbles<quant::BlockQ4_1>(WeightType::q4_1, 8, false),
    nibbles<quant::BlockQ5_0>(WeightType::q5_0, 4, true),
    nibbles<quant::BlockQ5_1>(WeightType::q5_1, 8, true),
    nibbles<quant::BlockIq4Nl>(WeightType::iq4_nl, 4, false),
    nibbles<quant::BlockMxfp4>(WeightType::mxfp4, 2, false),
    {WeightType::q8_0, sizeof(quant::BlockQ8_0), 32, 4, false, &read_bytes, &write_bytes},
};

const Format* find(WeightType type) noexcept {
  for (const Format& f : formats) {
    if (f.type == type) return &f;
  }
  return nullptr;
}

/// Calls f(block of the file, levels of the chunk, fifth bits of the chunk, scales of the row, column in the chunk) for
/// each block of a row.
template <class Byte, class F>
void each_block(const FragmentLayout& l, const Format& format, std::int64_t row, const Planes<Byte>& p, F f) {
  const std::int64_t tile = row / 16, in_tile = row % 16;
  for (std::int64_t b = 0; b < l.columns / 32; ++b) {
    const std::int64_t chunk = b * 32 / l.chunk;
    Byte* levels = p.levels.data() + tile * l.tile_level_bytes + chunk * 512;
    Byte* high = format.high ? p.high.data() + tile * l.tile_high_bytes + chunk * 128 : nullptr;
    const std::int64_t blocks = l.chunk / 32;
    Byte* scales = p.scales.data() + tile * l.tile_scale_bytes +
                   ((chunk * 8 + in_tile % 8) * blocks + b % blocks) * format.scale_bytes;
    f(b, levels, high, scales, b * 32 % l.chunk);
  }
}

std::byte* at(std::byte* p, std::int64_t offset) noexcept { return p + offset; }

/// The two rows' scales stand side by side, minima behind them.
template <class Byte, class Copy>
void each_scale(const Format& format, std::int64_t row, Byte* scales, Block32& block, Copy copy) {
  const std::int64_t second = row % 16 / 8;
  if (format.scale_bytes == 2) {
    copy(scales + second, &block.d, 1);
    return;
  }
  copy(scales + 2 * second, &block.d, 2);
  if (format.scale_bytes == 8) copy(scales + 4 + 2 * second, &block.m, 2);
}

}  // namespace

bool has_fragments(WeightType type) noexcept { return find(type) != nullptr || find_super(type) != nullptr; }

FragmentLayout fragment_layout(WeightType type, std::int64_t rows, std::int64_t columns) noexcept {
  const Format* format = find(type);
  const SuperFormat* super = find_super(type);
  FragmentLayout l;
  l.type = type;
  l.rows = rows;
  l.columns = columns;
  l.chunk = super != nullptr ? 64 : format->chunk;
  l.chunks = (columns + l.chunk - 1) / l.chunk;
  l.blocks = l.chunks * l.chunk / 32;
  l.tile_level_bytes = l.chunks * 512;
  if (super != nullptr) {
    l.tile_high_bytes = l.chunks * 32 * super->high_bytes;
    l.tile_scale_bytes = l.chunks / 4 * super_scale_bytes(*super);
  } else {
    l.tile_high_bytes = format->high ? l.chunks * 128 : 0;
    l.tile_scale_bytes = l.blocks * 8 * format->scale_bytes;
  }
  const std::int64_t tiles = (rows + 15) / 16;
  l.high_at = tiles * l.tile_level_bytes;
  l.scales_at = l.high_at + tiles * l.tile_high_bytes;
  l.bytes = l.scales_at + tiles * l.tile_scale_bytes;
  return l;
}

void repack_rows(const FragmentLayout& l, std::span<const std::byte> file, std::int64_t rows,
                 const Planes<std::byte>& planes) noexcept {
  if (find_super(l.type) != nullptr) return repack_super_rows(l, file, rows, planes);
  const Format& format = *find(l.type);
  const std::int64_t row_bytes = l.columns / 32 * format.block_bytes;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::byte* from = file.data() + row * row_bytes;
    each_block(l, format, row, planes,
               [&](std::int64_t b, std::byte* levels, std::byte* high, std::byte* scales, std::int64_t column) {
                 Block32 block = format.read(from + b * format.block_bytes);
                 each_scale(format, row, scales, block,
                            [](std::byte* to, const void* v, std::size_t n) { std::memcpy(to, v, n); });
                 for (std::int64_t i = 0; i < 32; ++i) {
                   const auto level = static_cast<unsigned>(block.levels[i]);
                   const FragmentPlace p = place_of(row % 16, column + i);
                   if (format.chunk == 32) {
                     *at(levels, p.lane * 16 + p.step * 8 + p.reg * 2 + p.element) = static_cast<std::byte>(level);
                     continue;
                   }
                   const std::int64_t nibble = p.reg + p.element * 4;
                   *at(levels, p.lane * 16 + p.step * 4 + nibble / 2) |=
                       static_cast<std::byte>((level & 15U) << (nibble % 2 * 4));
                   const std::int64_t bit = p.step * 4 + p.reg + p.element * 16;
                   if (high != nullptr)
                     *at(high, p.lane * 4 + bit / 8) |= static_cast<std::byte>((level >> 4) << (bit % 8));
                 }
               });
  }
}

void unpack_rows(const FragmentLayout& l, const Planes<const std::byte>& planes, std::int64_t rows,
                 std::span<std::byte> file) noexcept {
  if (find_super(l.type) != nullptr) return unpack_super_rows(l, planes, rows, file);
  const Format& format = *find(l.type);
  const std::int64_t row_bytes = l.columns / 32 * format.block_bytes;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::byte* to = file.data() + row * row_bytes;
    each_block(l, format, row, planes,
               [&](std::int64_t b, const std::byte* levels, const std::byte* high, const std::byte* scales,
                   std::int64_t column) {
                 Block32 block;
                 each_scale(format, row, scales, block,
                            [](const std::byte* from, void* v, std::size_t n) { std::memcpy(v, from, n); });
                 for (std::int64_t i = 0; i < 32; ++i) {
                   const FragmentPlace p = place_of(row % 16, column + i);
                   const auto bits = [](const std::byte* bytes, std::int64_t byte, std::int64_t shift) {
                     return static_cast<int>(bytes[byte] >> static_cast<unsigned>(shift));
                   };
                   if (format.chunk == 32) {
                     block.levels[i] = bits(levels, p.lane * 16 + p.step * 8 + p.reg * 2 + p.element, 0);
                     continue;
                   }
                   const std::int64_t nibble = p.reg + p.element * 4;
                   block.levels[i] = bits(levels, p.lane * 16 + p.step * 4 + nibble / 2, nibble % 2 * 4) & 15;
                   const std::int64_t bit = p.step * 4 + p.reg + p.element * 16;
                   if (high != nullptr) block.levels[i] |= (bits(high, p.lane * 4 + bit / 8, bit % 8) & 1) << 4;
                 }
                 format.write(block, to + b * format.block_bytes);
               });
  }
}

}  // namespace llminfer::cuda
