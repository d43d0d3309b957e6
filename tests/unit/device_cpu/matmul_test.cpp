// Matmuls: equal bits on every instruction set, for any number of columns and any split of the panels; inside the
// proven bound against double arithmetic.
#include <cmath>
#include <cstring>

#include "catch.h"
#include "device/cpu/multiply.h"
#include "random_rows.h"

namespace llminfer::cpu::test {
namespace {

struct alignas(64) Line {
  std::byte bytes[64];
};

std::byte* bytes_of(std::vector<Line>& lines) { return reinterpret_cast<std::byte*>(lines.data()); }

/// One packed matrix and some activations, quantized by one table.
class Case {
 public:
  Case(WeightType type, std::int64_t rows, std::int64_t columns, std::int64_t count, std::mt19937& random)
      : type_(type), rows_(random_rows(type, rows, columns, random)), count_(count) {
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
    in_ = random_floats(static_cast<std::size_t>(columns * count), random);
    slab_.resize(multiply_scratch(weight_) / 64 + 1);
    quant_.resize(static_cast<std::size_t>(count * columns * 2) / 64 + 8);
  }

  std::vector<float>& in() { return in_; }
  std::vector<std::byte>& rows() { return rows_; }
  const PackedShape& shape() const { return weight_.shape; }
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
      multiply(kernels, weight_, bytes_of(arena_), 0, share.begin, share.end, c, bias, bytes_of(slab_));
    }
    return out;
  }

  WeightType type_;
  std::vector<std::byte> rows_;
  std::int64_t count_;

 private:
  PlacedWeight weight_{};
  std::vector<Line> arena_{};
  std::vector<float> in_{};
  std::vector<Line> slab_{};
  std::vector<Line> quant_{};
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// The tables of all instruction sets that this processor has, but the portable one.
std::vector<Kernels> fast_kernels() {
  std::vector<Kernels> out;
  for (const char* name : {"avx2", "avxvnni", "avx512", "neon", "dotprod", "i8mm"}) {
    try {
      out.push_back(choose_kernels(name));
    } catch (const Exception& e) {
      REQUIRE(e.error().code == ErrorCode::unavailable);
    }
  }
  return out;
}

TEST_CASE("results are equal bit for bit on every instruction set, M 1 .. 40, odd rows, 1 .. 4 parts") {
  std::mt19937 random(3);
  const Kernels portable = choose_kernels("portable");
  const std::vector<Kernels> fast = fast_kernels();
  for (WeightType type : weight_types) {
    for (std::int64_t count = 1; count <= 40; count += count < 9 ? 1 : 7) {
      for (std::int64_t rows : {5, 67}) {
        INFO(describe(type).name << " M " << count << " rows " << rows);
        Case c(type, rows, rows == 67 && count < 12 ? 1280 : 256, count, random);
        const std::vector<float> truth = c.run(portable, 1);
        for (const Kernels& kernels : fast) {
          INFO(kernels.name);
          for (int parts = 1; parts <= 4; ++parts) REQUIRE(same_bits(c.run(kernels, parts), truth));
        }
      }
    }
  }
}

TEST_CASE("a column's result does not depend on the other columns") {
  std::mt19937 random(4);
  const Kernels best = choose_kernels("auto");
  for (WeightType type : weight_types) {
    Case all(type, 33, 512, 11, random);
    const std::vector<float> together = all.run(best, 1);
    for (std::int64_t i = 0; i < 11; ++i) {
      std::mt19937 again(5);
      Case one(type, 33, 512, 1, again);
      one = all;
      one.count_ = 1;
      std::copy_n(all.in().begin() + i * 512, 512, one.in().begin());
      const std::vector<float> alone = one.run(best, 1);
      INFO(describe(type).name << " column " << i);
      REQUIRE(std::memcmp(alone.data(), together.data() + i * 33, 33 * sizeof(float)) == 0);
    }
  }
}

/// |result - exact| <= sum over blocks of (d / 2) sum |w|, plus rounding.
void check_bound(Case& c, const std::vector<float>& out) {
  const std::vector<float> w = unpacked(c.type_, c.rows());
  const std::int64_t columns = c.shape().columns, rows = c.shape().rows;
  const bool real = slab_format(c.type_).kind == SlabKind::real;
  double worst = 0;
  for (std::int64_t i = 0; i < c.count_; ++i) {
    for (std::int64_t r = 0; r < rows; ++r) {
      double exact = 0, bound = 0, size = 0;
      for (std::int64_t k = 0; k < columns; ++k) {
        const double weight = w[static_cast<std::size_t>(r * columns + k)];
        const double x = c.in()[static_cast<std::size_t>(i * columns + k)];
        exact += weight * x;
        size += std::fabs(weight * x);
        if (!real) bound += 0.5 * (1 + 1e-5) * c.quant().row(i).d[k / 32] * std::fabs(weight);
      }
      // Rounding: each block adds a few ulp of what was summed; K formats and minima sum larger parts that cancel.
      bound += (real ? static_cast<double>(columns) : 64.0) * size * 0x1p-23 + bound * 1e-4 + 1e-6;
      const double error = std::fabs(out[static_cast<std::size_t>(i * rows + r)] - exact);
      worst = std::max(worst, error / bound);
    }
  }
  REQUIRE(worst <= 1.0);
}

TEST_CASE("results lie inside the bound against double arithmetic") {
  std::mt19937 random(6);
  for (const char* isa : {"portable", "auto"}) {
    const Kernels kernels = choose_kernels(isa);
    for (WeightType type : weight_types) {
      INFO(describe(type).name << " " << kernels.name);
      Case c(type, 35, 768, 5, random);
      check_bound(c, c.run(kernels, 1));
    }
  }
}

TEST_CASE("adversarial activations and levels: no overflow, zeros, outliers, not-a-numbers") {
  std::mt19937 random(7);
  const Kernels portable = choose_kernels("portable"), best = choose_kernels("auto");
  for (WeightType type : weight_types) {
    INFO(describe(type).name);
    Case c(type, 32, 512, 6, random);
    std::vector<float>& x = c.in();
    for (std::size_t k = 0; k < 512; ++k) {
      x[k] = 127.0F;                                 // every product at its largest
      x[512 + k] = k % 2 == 0 ? -1.0F : 1.0F;        // alternating
      x[1024 + k] = 0.0F;                            // zero blocks
      x[1536 + k] = k == 77 ? 1e30F : 1e-3F;         // one outlier
      x[2048 + k] = 1e-38F * static_cast<float>(k);  // tiny
      x[2560 + k] = -127.0F;
    }
    const std::vector<float> truth = c.run(portable, 1);
    REQUIRE(same_bits(c.run(best, 1), truth));
    for (std::size_t r = 0; r < 32; ++r) REQUIRE(truth[64 + r] == 0.0F);
    check_bound(c, truth);
    x[5 * 512 + 100] = NAN;
    x[4 * 512 + 3] = INFINITY;
    for (const Kernels* kernels : {&portable, &best}) {
      const std::vector<float> out = c.run(*kernels, 1);
      for (std::size_t r = 0; r < 32; ++r) {
        REQUIRE(std::isnan(out[5 * 32 + r]));
        REQUIRE(!std::isfinite(out[4 * 32 + r]));
        REQUIRE(std::isfinite(out[r]));
      }
    }
  }
}

TEST_CASE("all levels and activations at their extremes do not overflow") {
  const Kernels portable = choose_kernels("portable"), best = choose_kernels("auto");
  std::mt19937 random(8);
  for (WeightType type : weight_types) {
    if (describe(type).block_size == 1) continue;
    for (int byte : {0x00, 0x7f, 0x80, 0xff}) {
      INFO(describe(type).name << " bytes " << byte);
      std::mt19937 seed(9);
      const PackedShape shape = packed_shape(type, 16, 256);
      std::vector<std::byte> rows = random_rows(type, 16, 256, seed);
      // Everything but the scales that must stay finite.
      std::vector<std::byte> filled(rows.size(), static_cast<std::byte>(byte));
      const WeightTypeInfo& info = describe(type);
      for (std::size_t b = 0; b < rows.size(); b += info.block_bytes) {
        for (const BlockField& field : layout_of(type).smalls) {
          std::memcpy(filled.data() + b + field.offset, rows.data() + b + field.offset, field.bytes);
        }
      }
      std::vector<Line> panel(static_cast<std::size_t>(shape.panel_bytes) / 64);
      pack_panel(shape, filled.data(), 16, bytes_of(panel));
      PlacedWeight weight;
      weight.shape = shape;
      weight.slab = slab_format(type);
      for (float value : {1.0F, -1.0F}) {
        const std::vector<float> in(256 * 4, value);
        std::vector<Line> quant(64), slab(multiply_scratch(weight) / 64 + 1);
        const std::vector<float> w = unpacked(type, filled);
        for (std::int64_t count : {1, 4}) {
          std::vector<float> out[2];
          int which = 0;
          for (const Kernels* kernels : {&portable, &best}) {
            Columns c;
            c.quant = QuantRows::at(bytes_of(quant), count, 256);
            for (std::int64_t i = 0; i < count; ++i) kernels->quantize(in.data() + i * 256, 256, c.quant.row(i));
            out[which].assign(static_cast<std::size_t>(16 * count), 0.0F);
            c.out = out[which++].data();
            c.out_width = 16;
            c.count = count;
            multiply(*kernels, weight, bytes_of(panel), 0, 0, 1, c, nullptr, bytes_of(slab));
          }
          REQUIRE(same_bits(out[0], out[1]));
          for (std::size_t r = 0; r < 16; ++r) {
            double exact = 0, size = 0;
            for (std::size_t k = 0; k < 256; ++k) {
              exact += static_cast<double>(w[r * 256 + k]) * value;
              size += std::fabs(w[r * 256 + k]);
            }
            REQUIRE(out[0][r] == Approx(exact).margin(size * 1e-5));
          }
        }
      }
    }
  }
}

TEST_CASE("bias is added to every row and column") {
  std::mt19937 random(10);
  const Kernels best = choose_kernels("auto");
  Case c(WeightType::q8_0, 19, 64, 7, random);
  const std::vector<float> bias = random_floats(19, random);
  const std::vector<float> plain = c.run(best, 1), with = c.run(best, 2, bias.data());
  for (std::size_t i = 0; i < plain.size(); ++i) REQUIRE(with[i] == plain[i] + bias[i % 19]);
}

}  // namespace
}  // namespace llminfer::cpu::test
