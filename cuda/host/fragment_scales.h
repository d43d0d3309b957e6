// Where scales lie: behind the levels of a chunk of 64 rows and 64 columns, and behind the four chunks of a piece.
//
// A lane 4 g + t wants the scales of rows g and g + 8 of four tiles, which are four words side by side.
//   half:         for each of two blocks of 32 columns and g: of each tile, the halves of rows g and g + 8.
//   half_minimum: the same, for each block scales first, then minima.
//   byte:         for each g: of each tile, for each of two blocks bytes of rows g and g + 8.
//   nibble:       as byte, with the scale of the first 16 columns of the block in the low nibble, of the others in the
//                 high one.
//   two_bytes:    as byte, but for each block 16 bytes for each g: of each tile, for each of two steps, those of rows g
//                 and g + 8.
//   six_bits:     as nibble; then for each g 8 bytes with two upper bits: bytes as before, of tiles 0 and 1 (2 and 3),
//                 the bits of the first 16 columns at 4 (0), of the others at 6 (2).
// Behind the chunks of a piece: d (for each g, of each tile, halves of rows g and g + 8), in formats with minima dmin
// the same way, then the minima in A's order: for each lane and tile a word, with bytes of groups 2 t and 2 t + 1 of
// row g, then of g + 8, or (Q2_K) one step of LevelBits::four with groups for columns.
#pragma once

#include "host/fragment_levels.h"

namespace llminfer::cuda {

enum class ScaleBits : std::uint8_t { none, half, half_minimum, byte, nibble, two_bytes, six_bits };
enum class MinimumBits : std::uint8_t { none, byte, nibble };

constexpr int scale_bytes(ScaleBits bits) noexcept {
  switch (bits) {
    case ScaleBits::none:
      return 0;
    case ScaleBits::half:
    case ScaleBits::two_bytes:
      return 256;
    case ScaleBits::half_minimum:
      return 512;
    case ScaleBits::six_bits:
      return 192;
    case ScaleBits::byte:
    case ScaleBits::nibble:
      break;
  }
  return 128;
}

/// Where the scale (`minimum`: the minimum) of a row and 16 columns (`step` of a chunk) lies behind the levels.
constexpr BitPlace scale_place(ScaleBits bits, int row, int step, bool minimum = false) noexcept {
  const int g = row % 8, tile = row / 16, second = row % 16 / 8, block = step / 2, odd = step % 2;
  const int word = g * 16 + tile * 4, byte = word + block * 2 + second;
  switch (bits) {
    case ScaleBits::half:
      return place_in(run_at(block * 128 + word + 2 * second, 0, 16));
    case ScaleBits::half_minimum:
      return place_in(run_at(block * 256 + (minimum ? 128 : 0) + word + 2 * second, 0, 16));
    case ScaleBits::byte:
      return place_in(run_at(byte, 0, 8));
    case ScaleBits::nibble:
      return place_in(run_at(byte, 4 * odd, 4));
    case ScaleBits::two_bytes:
      return place_in(run_at(block * 128 + word + odd * 2 + second, 0, 8));
    case ScaleBits::six_bits:
      return place_in(run_at(byte, 4 * odd, 4),
                      run_at(128 + g * 8 + tile / 2 * 4 + block * 2 + second, (tile % 2 == 0 ? 4 : 0) + 2 * odd, 2));
    case ScaleBits::none:
      break;
  }
  return {};
}

/// d, or with `minimum` dmin, behind the chunks of a piece.
constexpr BitRun super_place(int row, bool minimum) noexcept {
  return run_at((minimum ? 128 : 0) + row % 8 * 16 + row / 16 * 4 + row % 16 / 8 * 2, 0, 16);
}

/// The minimum of a row and group (of 32 columns, with nibbles of 16) behind the chunks of a piece.
constexpr BitRun minimum_place(MinimumBits bits, int row, int group) noexcept {
  const int tile = row / 16;
  if (bits == MinimumBits::byte) {
    const int lane = row % 8 * 4 + group / 2;
    return run_at(256 + lane * 16 + tile * 4 + row % 16 / 8 * 2 + group % 2, 0, 8);
  }
  const FragmentPlace p = place_of(row % 16, group);
  return run_at(256 + p.lane * 16 + tile * 4, 4 * p.reg + 16 * p.element, 4);
}

}  // namespace llminfer::cuda
