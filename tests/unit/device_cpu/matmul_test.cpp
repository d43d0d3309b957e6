// Matmuls: equal bits on every instruction set, for any number of columns and any split of the panels.
#include <cmath>
#include <limits>

#include "catch.h"
#include "matmul_case.h"

namespace llminfer::cpu::test {
namespace {

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

TEST_CASE("more columns than go through the caches at a time: chunks, groups and slabs that end in them") {
  std::mt19937 random(6);
  const Kernels portable = choose_kernels("portable");
  const std::vector<Kernels> fast = fast_kernels();
  for (WeightType type : {WeightType::q4_0, WeightType::q4_1, WeightType::q8_0, WeightType::q6_k, WeightType::q2_k,
                          WeightType::q3_k, WeightType::q4_k, WeightType::q5_k, WeightType::iq4_xs}) {
    // A chunk of 4,096 values is 60 columns or more, of int16 24; the slab of a panel ends within k.
    for (std::int64_t count : {60, 120, 133}) {
      Case c(type, 17, 4096, count, random);
      const std::vector<float> truth = c.run(portable, 1);
      for (const Kernels& kernels : fast) {
        INFO(describe(type).name << " M " << count << " " << kernels.name);
        REQUIRE(same_bits(c.run(kernels, 1), truth));
      }
    }
  }
}

TEST_CASE("groups of columns one after the other: few blocks, and numbers of blocks that four does not divide") {
  std::mt19937 random(11);
  const Kernels portable = choose_kernels("portable");
  const std::vector<Kernels> fast = fast_kernels();
  for (WeightType type :
       {WeightType::q4_0, WeightType::q5_1, WeightType::q8_0, WeightType::iq4_nl, WeightType::mxfp4}) {
    for (std::int64_t columns : {32, 64, 96, 160, 576}) {
      for (std::int64_t count : {1, 2, 25, 30, 97, 150}) {
        INFO(describe(type).name << " K " << columns << " M " << count);
        Case c(type, 83, columns, count, random);
        const std::vector<float> truth = c.run(portable, 1);
        for (const Kernels& kernels : fast) {
          INFO(kernels.name);
          REQUIRE(same_bits(c.run(kernels, 2), truth));
        }
      }
    }
  }
}

TEST_CASE("a column's result does not depend on the other columns") {
  std::mt19937 random(4);
  const Kernels best = choose_kernels("auto");
  for (WeightType type : weight_types) {
    Case all(type, 33, 512, 27, random);
    const std::vector<float> together = all.run(best, 1);
    for (std::int64_t i = 0; i < 27; ++i) {
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

TEST_CASE("quantization of activations: equal levels, scales and sums, any number of blocks") {
  constexpr std::int64_t most = 19;
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  std::vector<float> in(32 * most);
  for (float& x : in) x = normal(random);
  for (int i = 0; i < 32; ++i) {
    in[static_cast<std::size_t>(32 + i)] = 0.0F;
    in[static_cast<std::size_t>(96 + i)] *= 1e-31F;
    in[static_cast<std::size_t>(128 + i)] *= 1e30F;
    in[static_cast<std::size_t>(160 + i)] = i % 2 == 0 ? 0.5F : -0.5F;
  }
  in[64] = std::numeric_limits<float>::quiet_NaN();
  in[200] = std::numeric_limits<float>::infinity();
  in[250] = 1e4F;
  struct Row {
    std::vector<std::int8_t> q = std::vector<std::int8_t>(32 * most + 1, 99);
    std::vector<float> d = std::vector<float>(most + 1, 99.0F), sum = d;
    std::vector<std::int16_t> half = std::vector<std::int16_t>(2 * most + 1, 99);
  };
  const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); });
  };
  const Kernels portable = choose_kernels("portable");
  for (std::int64_t blocks = 1; blocks <= most; ++blocks) {
    Row truth;
    portable.quantize(in.data(), 32 * blocks, {truth.q.data(), truth.d.data(), truth.sum.data(), truth.half.data()});
    for (const Kernels& kernels : fast_kernels()) {
      INFO(kernels.name << ", " << blocks << " blocks");
      Row row;
      kernels.quantize(in.data(), 32 * blocks, {row.q.data(), row.d.data(), row.sum.data(), row.half.data()});
      CHECK(row.q == truth.q);
      CHECK(row.half == truth.half);
      CHECK(same(row.d, truth.d));
      CHECK(same(row.sum, truth.sum));
    }
  }
}

TEST_CASE("adversarial activations and levels: no overflow, zeros, outliers, not-a-numbers") {
  std::mt19937 random(7);
  const Kernels portable = choose_kernels("portable"), best = choose_kernels("auto");
  const auto check = [&](WeightType type, std::int64_t count) {
    INFO(describe(type).name << " M " << count);
    Case c(type, 32, 512, count, random);
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
  };
  for (WeightType type : weight_types) check(type, 6), check(type, 30);
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
        const std::vector<float> in(256 * 28, value);
        std::vector<Line> quant(256), slab(multiply_scratch(choose_kernels("auto"), weight) / 64 + 1);
        const std::vector<float> w = unpacked(type, filled);
        for (std::int64_t count : {1, 4, 28}) {
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
            multiply(*kernels, weight, bytes_of(panel), 0, {0, 1, 0}, c, nullptr, bytes_of(slab));
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
  Case c(WeightType::q8_0, 19, 64, 31, random);
  const std::vector<float> bias = random_floats(19, random);
  const std::vector<float> plain = c.run(best, 1), with = c.run(best, 2, bias.data());
  for (std::size_t i = 0; i < plain.size(); ++i) REQUIRE(with[i] == plain[i] + bias[i % 19]);
}

}  // namespace
}  // namespace llminfer::cpu::test
