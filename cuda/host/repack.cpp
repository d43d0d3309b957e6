#include "host/repack.h"

#include <array>
#include <cstring>

#include "host/file_blocks.h"

namespace llminfer::cuda {
namespace {

template <class Byte>
unsigned get(const Byte* chunk, const BitRun& run) noexcept {
  unsigned v = static_cast<unsigned>(chunk[run.byte]);
  if (run.bit + run.count > 8) v |= static_cast<unsigned>(chunk[run.byte + 1]) << 8;
  return v >> run.bit & ((1U << run.count) - 1);
}
void put(std::byte* chunk, const BitRun& run, unsigned v) noexcept {
  chunk[run.byte] |= static_cast<std::byte>(v << run.bit);
  if (run.bit + run.count > 8) chunk[run.byte + 1] |= static_cast<std::byte>(v << run.bit >> 8);
}

template <class Byte>
unsigned get_all(const Byte* chunk, const BitPlace& place) noexcept {
  unsigned v = 0;
  int bits = 0;
  for (const BitRun& run : place.runs) {
    if (run.count == 0) break;
    v |= get(chunk, run) << bits;
    bits += run.count;
  }
  return v;
}
void put_all(std::byte* chunk, const BitPlace& place, unsigned v) noexcept {
  for (const BitRun& run : place.runs) {
    if (run.count == 0) break;
    put(chunk, run, v & ((1U << run.count) - 1));
    v >>= run.count;
  }
}

/// Moves between blocks of the file and their places in a matrix. `Byte` is const where the matrix is read.
template <class Byte>
class Mover {
 public:
  Mover(const FragmentLayout& layout, Byte* groups) noexcept
      : layout_(layout), format_(*find_file_format(layout.type)), groups_(groups) {
    for (int row = 0; row < 64; ++row) {
      for (int column = 0; column < 64; ++column) {
        places_[static_cast<std::size_t>(64 * row + column)] = level_place(format_.levels, row, column);
      }
    }
    chunk_bytes_ = level_bytes(format_.levels) + scale_bytes(format_.scales);
  }
  const FileFormat& format() const noexcept { return format_; }

  /// Calls value(place in the matrix, run or pair of runs, value of the block) for all that a block has.
  template <class Block, class Value>
  void each(std::int64_t row, std::int64_t block_number, Block& block, Value value) const noexcept {
    const std::int64_t column = block_number * format_.columns;
    Byte* piece = groups_ + row / 64 * layout_.group_bytes + column / layout_.piece_columns * layout_.piece_bytes;
    const int in_group = static_cast<int>(row % 64), first = static_cast<int>(column % layout_.piece_columns);
    const BitPlace* places = places_.data() + 64 * in_group;
    for (int i = 0; i < format_.columns; ++i) {
      value(piece + (first + i) / 64 * chunk_bytes_, places[(first + i) % 64], block.levels[i]);
    }
    if (format_.columns == 32) {
      small_scales(piece + level_bytes(format_.levels), in_group, first / 16, block, value);
    } else {
      super_scales(piece, in_group, block, value);
    }
  }

 private:
  template <class Block, class Value>
  void small_scales(Byte* scales, int row, int step, Block& block, Value value) const noexcept {
    if (format_.scales == ScaleBits::none) return;
    value(scales, scale_place(format_.scales, row, step), block.d);
    if (format_.scales == ScaleBits::half_minimum) value(scales, scale_place(format_.scales, row, step, true), block.m);
  }
  template <class Block, class Value>
  void super_scales(Byte* piece, int row, Block& block, Value value) const noexcept {
    const int steps = 16 / format_.groups;  // of a group
    for (int n = 0; n < format_.groups; ++n) {
      const int step = n * steps;
      value(piece + step / 4 * chunk_bytes_ + level_bytes(format_.levels), scale_place(format_.scales, row, step % 4),
            block.scales[n]);
    }
    Byte* tail = piece + 4 * chunk_bytes_;
    value(tail, place_in(super_place(row, false)), block.d);
    if (format_.minima == MinimumBits::none) return;
    value(tail, place_in(super_place(row, true)), block.m);
    for (int n = 0; n < format_.groups; ++n) {
      value(tail, place_in(minimum_place(format_.minima, row, n)), block.minima[n]);
    }
  }

  const FragmentLayout& layout_;
  const FileFormat& format_;
  Byte* groups_;
  int chunk_bytes_ = 0;
  std::array<BitPlace, std::size_t{64} * 64> places_;
};

}  // namespace

bool has_fragments(WeightType type) noexcept { return find_file_format(type) != nullptr; }

FragmentLayout fragment_layout(WeightType type, std::int64_t rows, std::int64_t columns) noexcept {
  const FileFormat& format = *find_file_format(type);
  FragmentLayout l;
  l.type = type;
  l.rows = rows;
  l.columns = columns;
  l.piece_columns = format.columns == 256 ? 256 : 64;
  l.piece_bytes = (level_bytes(format.levels) + scale_bytes(format.scales)) * (l.piece_columns / 64);
  if (format.columns == 256) l.piece_bytes += format.minima == MinimumBits::none ? 128 : 768;
  l.pieces = (columns + l.piece_columns - 1) / l.piece_columns;
  l.chunks = l.pieces * (l.piece_columns / 64);
  l.group_bytes = l.pieces * l.piece_bytes;
  l.bytes = (rows + 63) / 64 * l.group_bytes;
  return l;
}

void repack_rows(const FragmentLayout& l, std::span<const std::byte> file, std::int64_t rows,
                 std::span<std::byte> groups) noexcept {
  const Mover<std::byte> mover(l, groups.data());
  const FileFormat& format = mover.format();
  const std::byte* from = file.data();
  FileBlock block;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t b = 0; b < l.columns / format.columns; ++b, from += format.block_bytes) {
      format.read(from, block);
      mover.each(row, b, block, [](std::byte* at, const auto& place, unsigned v) { put_all(at, place, v); });
    }
  }
}

void unpack_rows(const FragmentLayout& l, std::span<const std::byte> groups, std::int64_t rows,
                 std::span<std::byte> file) noexcept {
  const Mover<const std::byte> mover(l, groups.data());
  const FileFormat& format = mover.format();
  std::byte* to = file.data();
  FileBlock block;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t b = 0; b < l.columns / format.columns; ++b, to += format.block_bytes) {
      mover.each(row, b, block, [](const std::byte* at, const auto& place, auto& v) {
        v = static_cast<std::remove_reference_t<decltype(v)>>(get_all(at, place));
      });
      format.write(block, to);
    }
  }
}

}  // namespace llminfer::cuda
