// Columns of activations side by side, as kernels for groups of them read them.
#include <cstring>

#include "device/cpu/kernels.h"

namespace llminfer::cpu {
namespace {

/// Of a slab's kind.
ColumnRest column_rest(SlabKind kind) noexcept {
  switch (kind) {
    case SlabKind::nibble_min:
    case SlabKind::five_min:
      return ColumnRest::sums;
    case SlabKind::group:
      return ColumnRest::zeros_of_halves;
    case SlabKind::group_min:
      return ColumnRest::pairs;
    case SlabKind::nibble:
    case SlabKind::five:
    case SlabKind::byte:
    case SlabKind::real:
      break;
  }
  return ColumnRest::zeros;
}

/// Column c of the group: its levels and scales, then what else levels need.
void add_column(const QuantColumn& column, int c, std::int64_t blocks, ColumnRest rest, int zero,
                ColumnGroup* out) noexcept {
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::memcpy(out[b].q[c], column.q + 32 * b, 32);
    out[b].d[c] = column.d[b];
  }
  switch (rest) {
    case ColumnRest::zeros:
      for (std::int64_t b = 0; b < blocks; ++b) {
        out[b].rest[0][c] = -zero * (column.half[2 * b] + column.half[2 * b + 1]);
      }
      break;
    case ColumnRest::sums:
      for (std::int64_t b = 0; b < blocks; ++b) std::memcpy(&out[b].rest[0][c], column.sum + b, 4);
      break;
    case ColumnRest::zeros_of_halves:
      for (std::int64_t b = 0; b < blocks; ++b) {
        out[b].rest[0][c] = -zero * column.half[2 * b];
        out[b].rest[1][c] = -zero * column.half[2 * b + 1];
      }
      break;
    case ColumnRest::pairs:
      for (std::int64_t b = 0; b < blocks; ++b) std::memcpy(&out[b].rest[0][c], column.half + 2 * b, 4);
      break;
  }
}

void add_nothing(int c, std::int64_t blocks, ColumnGroup* out) noexcept {
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::memset(out[b].q[c], 0, 32);
    out[b].d[c] = 0.0F;
    out[b].rest[0][c] = out[b].rest[1][c] = 0;
  }
}

}  // namespace

void group_columns_of(const QuantColumn* columns, int count, std::int64_t blocks, SlabFormat format,
                      ColumnGroup* out) noexcept {
  const ColumnRest rest = column_rest(format.kind);
  const int zero = format.kind == SlabKind::byte ? 128 : format.zero;
  for (int c = 0; c < count; ++c) add_column(columns[c], c, blocks, rest, zero, out);
  for (int c = count; c < group_columns; ++c) add_nothing(c, blocks, out);
}

}  // namespace llminfer::cpu
