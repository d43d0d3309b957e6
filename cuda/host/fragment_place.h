// Where an element lies among the fragments of a warp.
#pragma once

#include <cstdint>

namespace llminfer::cuda {

struct FragmentPlace {
  std::int64_t lane;
  std::int64_t step;     ///< of 16 columns
  std::int64_t reg;      ///< register of A
  std::int64_t element;  ///< of its pair
};

/// Of a tile of 16 rows; `column` in the chunk.
constexpr FragmentPlace place_of(std::int64_t row, std::int64_t column) noexcept {
  const std::int64_t in_step = column % 16;
  return {row % 8 * 4 + in_step % 8 / 2, column / 16, row / 8 + in_step / 8 * 2, in_step % 2};
}

}  // namespace llminfer::cuda
