// Slab times columns, one result at a time: the meaning of every tile kernel (see slab.h).
#include <cmath>

#include "device/cpu/portable/float_kernels.h"

namespace llminfer::cpu::portable {
namespace {

/// Sum of levels * q over words [first, last) of one row.
template <class Block>
std::int32_t dot(const Block& block, int row, const std::int8_t* q, int first, int last) {
  std::int32_t sum = 0;
  for (int w = first; w < last; ++w) {
    for (int i = 0; i < 4; ++i) sum += block.levels[w][row][i] * q[4 * w + i];
  }
  return sum;
}

void add_block(const SlabScaled& block, int zero, const QuantColumn& c, std::int64_t b, int row, float& y) {
  const std::int32_t sum = dot(block, row, c.q + 32 * b, 0, 8) - zero * (c.half[2 * b] + c.half[2 * b + 1]);
  y = std::fma(static_cast<float>(sum), block.d[row] * c.d[b], y);
}

void add_block(const SlabMin& block, int, const QuantColumn& c, std::int64_t b, int row, float& y) {
  const std::int32_t sum = dot(block, row, c.q + 32 * b, 0, 8);
  y = std::fma(static_cast<float>(sum), block.d[row] * c.d[b], y);
  y = std::fma(block.m[row], c.sum[b], y);
}

void add_block(const SlabByte& block, int, const QuantColumn& c, std::int64_t b, int row, float& y) {
  std::int32_t sum = 0;
  for (int i = 0; i < 32; ++i) sum += block.levels[i % 2][i / 4][row][i % 4 / 2] * c.q[32 * b + i];
  y = std::fma(static_cast<float>(sum), block.d[row] * c.d[b], y);
}

std::int32_t scaled_dot(const SlabGroup& block, const QuantColumn& c, std::int64_t b, int row) {
  return block.scale[0][row][0] * dot(block, row, c.q + 32 * b, 0, 4) +
         block.scale[1][row][0] * dot(block, row, c.q + 32 * b, 4, 8);
}

std::int32_t paired(const SlabGroup& block, const QuantColumn& c, std::int64_t b, int row) {
  return block.pair[row][0] * c.half[2 * b] + block.pair[row][1] * c.half[2 * b + 1];
}

void add_block(const SlabGroup& block, int, const QuantColumn& c, std::int64_t b, int row, float& y) {
  const std::int32_t sum = scaled_dot(block, c, b, row) + paired(block, c, b, row);
  y = std::fma(static_cast<float>(sum), block.d[row] * c.d[b], y);
}

struct GroupMin : SlabGroup {};

void add_block(const GroupMin& block, int, const QuantColumn& c, std::int64_t b, int row, float& y) {
  y = std::fma(static_cast<float>(scaled_dot(block, c, b, row)), block.d[row] * c.d[b], y);
  y = std::fma(static_cast<float>(paired(block, c, b, row)), block.dm[row] * c.d[b], y);
}

template <class Block>
void tile(const TileArgs& t) {
  const Block* at = reinterpret_cast<const Block*>(t.slab);
  for (int c = 0; c < t.count; ++c) {
    const QuantColumn& column = t.columns[c];
    for (int row = 0; row < panel_rows; ++row) {
      float y = t.add ? column.out[row] : 0.0F;
      for (std::int64_t b = 0; b < t.blocks; ++b) add_block(at[b], t.zero, column, b, row, y);
      column.out[row] = y;
    }
  }
}

void widen(const std::int8_t* q, std::int64_t n, std::int16_t* out) {
  constexpr int order[4] = {0, 2, 1, 3};
  for (std::int64_t i = 0; i < n; ++i) out[i] = q[i / 4 * 4 + order[i % 4]];
}

}  // namespace

void add_matmul_kernels(Kernels& kernels) noexcept {
  for (auto& unpack : kernels.unpack) unpack = unpack_panel;
  kernels.widen = widen;
  kernels.tile[static_cast<int>(SlabKind::nibble)] = tile<SlabScaled>;
  kernels.tile[static_cast<int>(SlabKind::nibble_min)] = tile<SlabMin>;
  kernels.tile[static_cast<int>(SlabKind::five)] = tile<SlabScaled>;
  kernels.tile[static_cast<int>(SlabKind::five_min)] = tile<SlabMin>;
  kernels.tile[static_cast<int>(SlabKind::byte)] = tile<SlabByte>;
  kernels.tile[static_cast<int>(SlabKind::group)] = tile<SlabGroup>;
  kernels.tile[static_cast<int>(SlabKind::group_min)] = tile<GroupMin>;
}

}  // namespace llminfer::cpu::portable
