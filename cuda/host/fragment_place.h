// Where an element lies among the fragments of a warp.
#pragma once

#include <cstdint>

namespace llminfer::cuda {

struct FragmentPlace {
  int lane;
  int step;     ///< of 16 columns
  int reg;      ///< register of A
  int element;  ///< of its pair
};

/// Of a tile of 16 rows; `column` in the chunk.
constexpr FragmentPlace place_of(int row, int column) noexcept {
  const int in_step = column % 16;
  return {row % 8 * 4 + in_step % 8 / 2, column / 16, row / 8 + in_step / 8 * 2, in_step % 2};
}

}  // namespace llminfer::cuda
