// The unpacked form of one panel: what the matmul kernels multiply. A slab lives in one thread's scratch and is made
// from a packed panel just before use, once for many columns. There are few kinds, whatever the number of formats.
//
// In every kind, for 32 values along k and 16 rows: levels stand in the order [k / 4][row][k % 4], so that the four
// bytes of one row lie beside those of the next (as dot-product instructions want them). Meaning of one block of row r
// against the activations q (int8) with scale dx:
//   nibble, five          sum = levels . q - zero * sum(q)             y += sum * (d * dx)
//   nibble_min, five_min  sum = levels . q                             y += sum * (d * dx), then m * (dx * sum(q))
//   byte                  sum = levels . q, levels signed              y += sum * (d * dx)
//   group                 sum = over halves h: scale[h] * (levels . q)_h + pair[h] * sum(q)_h
//                                                                      y += sum * (d * dx)
//   group_min             sum = over halves h: scale[h] * (levels . q)_h
//                         least = over halves h: pair[h] * sum(q)_h    y += sum * (d * dx), then least * (dm * dx)
//   real                  float weights, [k][row]
// All sums are exact integers below 2^24, so that they convert to float exactly.
#pragma once

#include <cstddef>
#include <cstdint>

#include <llminfer/weight_type.hpp>

#include "device/cpu/panel_layout.h"

namespace llminfer::cpu {

/// `nibble` levels are at most 15, `five` at most 31: how many products an int16 can hold depends on it.
enum class SlabKind : std::uint8_t { nibble, nibble_min, five, five_min, byte, group, group_min, real };
constexpr int slab_kinds = 8;

struct alignas(64) SlabScaled {  // nibble, five
  std::uint8_t levels[8][panel_rows][4];
  float d[panel_rows];
};
struct alignas(64) SlabMin {  // nibble_min, five_min
  std::uint8_t levels[8][panel_rows][4];
  float d[panel_rows];
  float m[panel_rows];
};
struct alignas(64) SlabByte {  // byte: levels as int16, [k % 2][k / 4][row][k % 4 / 2]
  std::int16_t levels[2][8][panel_rows][2];
  float d[panel_rows];
};
struct alignas(64) SlabGroup {  // group, group_min
  std::uint8_t levels[8][panel_rows][4];
  std::int16_t scale[2][panel_rows][2];  ///< of each half, twice
  std::int16_t pair[panel_rows][2];      ///< group: -zero * scale; group_min: minimum
  float d[panel_rows];
  float dm[panel_rows];  ///< group_min: minus the scale of the minima
};

struct SlabFormat {
  SlabKind kind = SlabKind::real;
  int zero = 0;  ///< subtracted from levels of nibble and five; of group: what `pair` takes off, from all of them
};

/// What panels of a type unpack to.
SlabFormat slab_format(WeightType type) noexcept;

/// Bytes of a slab for `columns` values (for real: any number; else a multiple of 32).
std::size_t slab_bytes(SlabKind kind, std::int64_t columns) noexcept;

}  // namespace llminfer::cpu
