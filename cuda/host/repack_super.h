// Weights in blocks of 256 columns into the order of mma.sync's A operand, and
// back: what repack.h does for blocks of 32.
//
// Levels are four bits in the same places; fifth bits (Q5_K) too. The two upper
// bits of Q6_K are a plane of two words a lane and 64 columns: bits 8 (s % 2) +
// 2 r of word s / 2 for step s and register r, 16 bits further up for the
// second element of the pair. Scales of a tile and 256 columns: four bytes for
// each group of 32 columns and g of 0 .. 7, groups 0 .. 3 of all g first, the
// four of a g side by side: of row g, then of row g + 8, for Q4_K and Q5_K the
// scale and minimum of the group, for Q6_K the scales of its two halves plus
// 128. IQ4_XS has two bytes, and all eight groups of a g side by side: the
// scales plus 128. Behind these bytes, for each g, the halves d and dmin (Q6_K,
// IQ4_XS: d) of row g, then of g + 8.
#pragma once

#include "host/repack.h"

namespace llminfer::cuda {

/// Q4_K, Q5_K, Q6_K, IQ4_XS.
struct SuperFormat {
  WeightType type;
  int block_bytes;
  int high_bytes;   ///< of a lane and 64 columns
  int super_bytes;  ///< d and dmin of two rows
  int group_bytes;  ///< scales of a group of 32 columns, of two rows
};
/// Null for other types.
const SuperFormat* find_super(WeightType type) noexcept;

/// Bytes of the scales of a tile and 256 columns.
constexpr std::int64_t super_scale_bytes(const SuperFormat& f) noexcept {
  return 64 * f.group_bytes + 8 * f.super_bytes;
}

void repack_super_rows(const FragmentLayout& layout, std::span<const std::byte> file, std::int64_t rows,
                       const Planes<std::byte>& planes) noexcept;
void unpack_super_rows(const FragmentLayout& layout, const Planes<const std::byte>& planes, std::int64_t rows,
                       std::span<std::byte> file) noexcept;

}  // namespace llminfer::cuda
