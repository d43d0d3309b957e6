// A matmul to try on any table of kernels.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "catch.h"
#include "device/cpu/multiply.h"
#include "random_rows.h"

namespace llminfer::cpu::test {

struct alignas(64) Line {
  std::byte bytes[64];
};

inline std::byte* bytes_of(std::vector<Line>& lines) { return reinterpret_cast<std::byte*>(lines.data()); }

/// One packed matrix and some activations, quantized by one table.
class Case {
 public:
  Case(WeightType type, std::int64_t rows, std::int64_t columns, std::int64_t count, std::mt19937& random)
      : Case(type, random_rows(type, rows, columns, random), rows, columns, count) {
    in_ = random_floats(static_cast<std::size_t>(columns * count), random);
  }

  /// `bytes`: the rows in the file's form. Activations are 0.
  Case(WeightType type, std::vector<std::byte> bytes, std::int64_t rows, std::int64_t columns, std::int64_t count)
      : type_(type), rows_(std::move(bytes)), count_(count), in_(static_cast<std::size_t>(columns * count)) {
    weight_.matrix = true;
    weight_.shape = packed_shape(type, rows, columns);
    weight_.slab = slab_format(type);
    const PackedShape& s = weight_.shape;
    arena_.resize(static_cast<std::size_t>(s.panels * s.panel_bytes) / 64 + 1);
    for (std::int64_t p = 0; p < s.panels; ++p) {
      pack_panel(s, rows_.data() + p * panel_rows * s.row_bytes,
                 static_cast<int>(std::min<std::int64_t>(panel_rows, rows - p * panel_rows)),
                 bytes_of(arena_) + p * s.panel_bytes);
    }
    slab_.resize(multiply_scratch(choose_kernels("auto"), weight_) / 64 + 1);
    quant_.resize(static_cast<std::size_t>(count * columns * 2) / 64 + 8);
  }

  std::vector<float>& in() { return in_; }
  std::vector<std::byte>& rows() { return rows_; }
  const PackedShape& shape() const { return weight_.shape; }
  const std::byte* panel(std::int64_t index) { return bytes_of(arena_) + index * shape().panel_bytes; }
  QuantRows quant() { return QuantRows::at(bytes_of(quant_), count_, shape().columns); }

  /// All columns, panels in `parts` pieces as that many threads would take them.
  std::vector<float> run(const Kernels& kernels, int parts, const float* bias = nullptr) {
    const std::int64_t columns = shape().columns;
    std::vector<float> out(static_cast<std::size_t>(shape().rows * count_), -1e30F);
    Columns c;
    c.real = in_.data();
    c.real_width = columns;
    c.out = out.data();
    c.out_width = shape().rows;
    c.count = count_;
    if (weight_.slab.kind != SlabKind::real) {
      c.quant = quant();
      for (std::int64_t i = 0; i < count_; ++i) kernels.quantize(in_.data() + i * columns, columns, c.quant.row(i));
    }
    for (int t = 0; t < parts; ++t) {
      const core::Share share = core::share_of(shape().panels, t, parts);
      multiply(kernels, weight_, bytes_of(arena_), 0, {share.begin, share.end, 0}, c, bias, bytes_of(slab_));
    }
    return out;
  }

  WeightType type_;
  std::vector<std::byte> rows_;
  std::int64_t count_;

 private:
  PlacedWeight weight_{};
  std::vector<Line> arena_{};
  std::vector<float> in_;
  std::vector<Line> slab_{};
  std::vector<Line> quant_{};
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// The tables of all instruction sets that this processor has, but the portable one.
inline std::vector<Kernels> fast_kernels() {
  std::vector<Kernels> out;
  for (const char* name : {"avx2", "avxvnni", "avx512", "avx512bf16", "amx", "neon", "dotprod", "i8mm"}) {
    try {
      out.push_back(choose_kernels(name));
    } catch (const Exception& e) {
      REQUIRE(e.error().code == ErrorCode::unavailable);
    }
  }
  return out;
}

}  // namespace llminfer::cpu::test
