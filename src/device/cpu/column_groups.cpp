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

/// What levels need of block b of a column beside its levels and scale.
template <ColumnRest rest>
void add_rest(const QuantColumn& column, int c, std::int64_t b, int zero, ColumnGroup& out) noexcept {
  const std::int16_t* const half = column.half + 2 * b;
  if constexpr (rest == ColumnRest::zeros) {
    out.rest[0][c] = -zero * (half[0] + half[1]);
  } else if constexpr (rest == ColumnRest::sums) {
    std::memcpy(&out.rest[0][c], column.sum + b, 4);
  } else if constexpr (rest == ColumnRest::zeros_of_halves) {
    out.rest[0][c] = -zero * half[0];
    out.rest[1][c] = -zero * half[1];
  } else {
    std::memcpy(&out.rest[0][c], half, 4);
  }
}

/// Block by block, so that what is written lies side by side.
template <ColumnRest rest>
void add_columns(const QuantColumn* columns, int count, std::int64_t blocks, int zero, ColumnGroup* out) noexcept {
  for (std::int64_t b = 0; b < blocks; ++b) {
    for (int c = 0; c < count; ++c) std::memcpy(out[b].q[c], columns[c].q + 32 * b, 32);
    for (int c = 0; c < count; ++c) {
      out[b].d[c] = columns[c].d[b];
      add_rest<rest>(columns[c], c, b, zero, out[b]);
    }
    for (int c = count; c < group_columns; ++c) {
      std::memset(out[b].q[c], 0, 32);
      out[b].d[c] = 0.0F;
      out[b].rest[0][c] = out[b].rest[1][c] = 0;
    }
  }
}

}  // namespace

void group_columns_of(const QuantColumn* columns, int count, std::int64_t blocks, SlabFormat format,
                      ColumnGroup* out) noexcept {
  const int zero = format.kind == SlabKind::byte ? 128 : format.zero;
  switch (column_rest(format.kind)) {
    case ColumnRest::zeros:
      return add_columns<ColumnRest::zeros>(columns, count, blocks, zero, out);
    case ColumnRest::sums:
      return add_columns<ColumnRest::sums>(columns, count, blocks, zero, out);
    case ColumnRest::zeros_of_halves:
      return add_columns<ColumnRest::zeros_of_halves>(columns, count, blocks, zero, out);
    case ColumnRest::pairs:
      return add_columns<ColumnRest::pairs>(columns, count, blocks, zero, out);
  }
}

}  // namespace llminfer::cpu
