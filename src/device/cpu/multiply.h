// One packed matrix times some columns (activation rows), over a range of its panels. See multiply.cpp for the order.
#pragma once

#include "device/cpu/kernels.h"
#include "device/cpu/weights.h"

namespace llminfer::cpu {

/// Quantized rows side by side: row r of each plane begins at r * its width.
struct QuantRows {
  std::int8_t* q = nullptr;
  float* d = nullptr;
  float* sum = nullptr;
  std::int16_t* half = nullptr;
  std::int64_t width = 0;

  static QuantRows at(std::byte* base, std::int64_t rows, std::int64_t width) noexcept;
  QuantRow row(std::int64_t r) const noexcept {
    const std::int64_t blocks = width / 32;
    return {q + r * width, d + r * blocks, sum + r * blocks, half + 2 * r * blocks};
  }
};

/// What a matmul reads and writes. `in_rows`, `out_rows`: row numbers per column, null for 0, 1, 2, ...
struct Columns {
  QuantRows quant{};            ///< for quantized weights
  const float* real = nullptr;  ///< for float weights: rows of real_width
  std::int64_t real_width = 0;
  const std::int32_t* in_rows = nullptr;
  float* out = nullptr;
  std::int64_t out_width = 0;
  std::int64_t out_panel = 0;  ///< whose results stand at `out`
  const std::int32_t* out_rows = nullptr;
  std::int64_t first = 0;  ///< columns [first, first + count)
  std::int64_t count = 0;
};

/// Panels [begin, end); the caller goes on with `behind` more after them, whose weights are asked for ahead.
struct PanelRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t behind = 0;
};

/// Of which columns groups (or widened levels, or shifts) stand in a thread's scratch, so that products of the same
/// input need not make them again.
/// The caller forgets them (= {}) whenever the input may have changed.
struct GroupsMade {
  const std::int8_t* q = nullptr;
  std::int64_t first = 0;
  std::int64_t last = 0;
  const std::byte* at = nullptr;
  SlabFormat format{};
};

/// Columns that meet a panel while they stay in the cache: multiply takes `count` of them in parts of so many.
std::int64_t columns_at_once(const Kernels& kernels, const PlacedWeight& weight, std::int64_t count) noexcept;

/// Bytes that a thread needs beside it.
std::size_t multiply_scratch(const Kernels& kernels, const PlacedWeight& weight) noexcept;

/// Writes, for some panels of one expert, out[c][16 p ..] = weight rows . column c + bias (may be null).
/// `scratch`: multiply_scratch bytes, 64-byte aligned, this thread's own, of which `made` tells; null: not kept.
void multiply(const Kernels& kernels, const PlacedWeight& weight, const std::byte* arena, std::int64_t expert,
              PanelRange panels, const Columns& columns, const float* bias, std::byte* scratch,
              GroupsMade* made = nullptr) noexcept;

}  // namespace llminfer::cpu
