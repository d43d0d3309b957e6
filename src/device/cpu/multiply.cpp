// Order of loops: chunks of columns that stay in the L2 cache; in each, panels; a panel is unpacked once into a slab
// and meets all columns of the chunk, a few at a time. One column: no slab where the format has a direct kernel. K is
// never split, and a result never depends on what other columns or panels there are.
#include "device/cpu/multiply.h"

#include <algorithm>
#include <cstring>

namespace llminfer::cpu {
namespace {

constexpr std::int64_t chunk_bytes = 256 * 1024;  // of columns: half of a common L2 cache

/// Results of one panel for a few columns go straight to the output when the panel is whole, else through here.
struct Spill {
  alignas(64) float values[real_rows][panel_rows];
};

class Multiplier {
 public:
  Multiplier(const Kernels& kernels, const PlacedWeight& weight, const Columns& columns, const float* bias,
             std::byte* slab) noexcept
      : kernels_(kernels), weight_(weight), columns_(columns), bias_(bias), slab_(slab) {}

  void panel(const std::byte* packed, std::int64_t index, std::int64_t first, std::int64_t last) noexcept {
    if (weight_.slab.kind == SlabKind::real) {
      real(packed, index, first, last);
    } else {
      quantized(packed, index, first, last);
    }
  }

 private:
  int type_index() const noexcept { return static_cast<int>(weight_.shape.type); }
  std::int64_t in_row(std::int64_t c) const noexcept { return columns_.in_rows != nullptr ? columns_.in_rows[c] : c; }
  float* out_at(std::int64_t c, std::int64_t index) const noexcept {
    const std::int64_t row = columns_.out_rows != nullptr ? columns_.out_rows[c] : c;
    return columns_.out + row * columns_.out_width + index * panel_rows;
  }
  int rows_in(std::int64_t index) const noexcept {
    return static_cast<int>(std::min<std::int64_t>(panel_rows, weight_.shape.rows - index * panel_rows));
  }

  /// Copies out of the spill if the panel is not whole, adds the bias.
  void finish(std::int64_t c, std::int64_t index, const float* from) noexcept {
    float* out = out_at(c, index);
    const int rows = rows_in(index);
    if (from != out) std::memcpy(out, from, sizeof(float) * static_cast<std::size_t>(rows));
    if (bias_ != nullptr) {
      for (int r = 0; r < rows; ++r) out[r] += bias_[index * panel_rows + r];
    }
  }

  /// Asks for part `index` of `count` of the panel behind this one: its bytes come while this one is multiplied.
  void prefetch_next(const std::byte* packed, std::int64_t index, std::int64_t count) const noexcept {
    const std::byte* next = packed + weight_.shape.panel_bytes;
    const std::int64_t lines = weight_.shape.panel_bytes / static_cast<std::int64_t>(line_bytes);
    for (std::int64_t i = lines * index / count; i < lines * (index + 1) / count; ++i) {
      __builtin_prefetch(next + i * static_cast<std::int64_t>(line_bytes), 0, 2);
    }
  }

  void quantized(const std::byte* packed, std::int64_t index, std::int64_t first, std::int64_t last) noexcept {
    const bool whole = rows_in(index) == panel_rows;
    const auto gemv = last - first == 1 ? kernels_.gemv[type_index()] : nullptr;
    const auto tile = kernels_.tile[static_cast<int>(weight_.slab.kind)];
    if (gemv == nullptr) kernels_.unpack[type_index()]({&weight_.shape, packed, slab_});
    QuantColumn tile_column[tile_columns];
    for (std::int64_t c = first; c < last; c += tile_columns) {
      const int count = static_cast<int>(std::min<std::int64_t>(tile_columns, last - c));
      for (int i = 0; i < count; ++i) {
        const QuantRow row = columns_.quant.row(in_row(c + i));
        tile_column[i] = {row.q, row.d, row.sum, row.half, whole ? out_at(c + i, index) : spill_.values[i]};
      }
      if (gemv != nullptr) {
        gemv(weight_.shape, packed, tile_column[0]);
      } else {
        prefetch_next(packed, (c - first) / tile_columns, (last - first + tile_columns - 1) / tile_columns);
        tile(slab_, weight_.shape.columns / 32, weight_.slab.zero, tile_column, count);
      }
      for (int i = 0; i < count; ++i) finish(c + i, index, tile_column[i].out);
    }
  }

  void real(const std::byte* packed, std::int64_t index, std::int64_t first, std::int64_t last) noexcept {
    const bool whole = rows_in(index) == panel_rows;
    const float* b = reinterpret_cast<const float*>(packed);
    if (weight_.shape.type != WeightType::f32) {
      kernels_.unpack[type_index()]({&weight_.shape, packed, slab_});
      b = reinterpret_cast<const float*>(slab_);
    }
    const float* in[real_rows];
    float* out[real_rows];
    for (std::int64_t c = first; c < last; c += real_rows) {
      const int count = static_cast<int>(std::min<std::int64_t>(real_rows, last - c));
      for (int i = 0; i < count; ++i) {
        in[i] = columns_.real + in_row(c + i) * columns_.real_width;
        out[i] = whole ? out_at(c + i, index) : spill_.values[i];
      }
      prefetch_next(packed, (c - first) / real_rows, (last - first + real_rows - 1) / real_rows);
      kernels_.real_tile(in, b, panel_rows, out, count, weight_.shape.columns, false);
      for (int i = 0; i < count; ++i) finish(c + i, index, out[i]);
    }
  }

  const Kernels& kernels_;
  const PlacedWeight& weight_;
  const Columns& columns_;
  const float* bias_;
  std::byte* slab_;
  Spill spill_;
};

}  // namespace

QuantRows QuantRows::at(std::byte* base, std::int64_t rows, std::int64_t width) noexcept {
  // Planes with the widest elements first, so that each is aligned.
  const std::int64_t blocks = width / 32;
  QuantRows out;
  out.width = width;
  out.d = reinterpret_cast<float*>(base);
  out.sum = out.d + rows * blocks;
  out.half = reinterpret_cast<std::int16_t*>(out.sum + rows * blocks);
  out.q = reinterpret_cast<std::int8_t*>(out.half + 2 * rows * blocks);
  return out;
}

void multiply(const Kernels& kernels, const PlacedWeight& weight, const std::byte* arena, std::int64_t expert,
              std::int64_t begin, std::int64_t end, const Columns& columns, const float* bias,
              std::byte* slab) noexcept {
  const std::int64_t bytes = weight.slab.kind == SlabKind::real ? 4 * weight.shape.columns : weight.shape.columns;
  const std::int64_t few = std::max<std::int64_t>(12, chunk_bytes / bytes / 12 * 12);  // whole tiles of 4 and of 6
  Multiplier multiplier(kernels, weight, columns, bias, slab);
  for (std::int64_t c = 0; c < columns.count; c += few) {
    const std::int64_t last = std::min(columns.count, c + few);
    for (std::int64_t p = begin; p < end; ++p) multiplier.panel(weight.panel(arena, expert, p), p, c, last);
  }
}

}  // namespace llminfer::cpu
