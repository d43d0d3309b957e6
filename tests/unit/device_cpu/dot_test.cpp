// The kernels of dot.inc and groups.inc over vectors made of plain arrays, so that their order of work is tested where
// the processor has no such instructions: equal bits with the portable tiles.
#include <bit>
#include <cmath>
#include <cstring>

#include "catch.h"
#include "core/half.h"
#include "device/cpu/kernels.h"
#include "random_rows.h"

namespace llminfer::cpu::test {
namespace {

template <class T, int lanes>
struct Vector {
  T v[lanes];
};

template <int lanes, class Op>
Vector<std::int32_t, lanes> each(Op op) {
  Vector<std::int32_t, lanes> out;
  for (int i = 0; i < lanes; ++i) out.v[i] = op(i);
  return out;
}

template <int lanes, class Op>
Vector<float, lanes> each_f(Op op) {
  Vector<float, lanes> out;
  for (int i = 0; i < lanes; ++i) out.v[i] = op(i);
  return out;
}

std::int32_t dot_bytes(std::int32_t sum, std::int32_t u, std::int32_t s) {
  std::uint8_t a[4];
  std::int8_t b[4];
  std::memcpy(a, &u, 4);
  std::memcpy(b, &s, 4);
  for (int i = 0; i < 4; ++i) sum += a[i] * b[i];
  return sum;
}

std::int32_t dot_words(std::int32_t sum, std::int32_t x, std::int32_t y) {
  std::int16_t a[2], b[2];
  std::memcpy(a, &x, 4);
  std::memcpy(b, &y, 4);
  return sum + a[0] * b[0] + a[1] * b[1];
}

std::int32_t low_word(std::int32_t x) {
  std::int16_t a;
  std::memcpy(&a, &x, 2);
  return a;
}

namespace wide {  // as AVX-512
constexpr int parts = 1, lanes = 16;
#include "dot_lanes.inc"
//
#include "device/cpu/kernels/dword.inc"
//
#include "device/cpu/kernels/dots.inc"
//
#include "device/cpu/kernels/dot.inc"
//
#include "device/cpu/kernels/dot_bytes.inc"
//
#include "device/cpu/kernels/packed_kinds.inc"
//
#include "device/cpu/kernels/groups.inc"
//
#include "device/cpu/kernels/group_tiles.inc"
#undef LLMINFER_INLINE
void add(Kernels& kernels) {
#include "device/cpu/kernels/dot_table.inc"
//
#include "device/cpu/kernels/dot_bytes_table.inc"
//
#include "device/cpu/kernels/group_table.inc"
}
}  // namespace wide

namespace narrow {  // as AVX-VNNI
constexpr int parts = 2, lanes = 8;
#include "dot_lanes.inc"
//
#include "device/cpu/kernels/dword.inc"
//
#include "device/cpu/kernels/dots.inc"
//
#include "device/cpu/kernels/dot.inc"
//
#include "device/cpu/kernels/dot_bytes.inc"
#undef LLMINFER_INLINE
void add(Kernels& kernels) {
#include "device/cpu/kernels/dot_table.inc"
//
#include "device/cpu/kernels/dot_bytes_table.inc"
}
}  // namespace narrow

struct alignas(64) Line {
  std::byte bytes[64];
};

/// One panel and four columns of activations.
struct Case {
  Case(WeightType weight_type, std::int64_t k, const Kernels& portable)
      : type(weight_type), shape(packed_shape(type, panel_rows, k)), random(15) {
    const std::vector<std::byte> rows = random_rows(type, panel_rows, k, random);
    panel.resize(static_cast<std::size_t>(shape.panel_bytes) / 64);
    pack_panel(shape, rows.data(), panel_rows, panel.data()->bytes);
    slab.resize(slab_bytes(slab_format(type).kind, k) / 64 + 1);
    portable.unpack[static_cast<int>(type)](
        unpack_args(shape, panel.data()->bytes, 0, shape.blocks, slab.data()->bytes));
    const std::size_t n = static_cast<std::size_t>(k);
    for (Column& c : columns) {
      c.q.resize(n);
      c.wide.resize(n);
      c.d.resize(n / 32);
      c.sum.resize(n / 32);
      c.half.resize(n / 16);
      portable.quantize(random_floats(n, random).data(), k, {c.q.data(), c.d.data(), c.sum.data(), c.half.data()});
      portable.widen(c.q.data(), k, c.wide.data());
    }
  }

  struct Column {
    std::vector<std::int8_t> q{};
    std::vector<std::int16_t> wide{}, half{};
    std::vector<float> d{}, sum{};
    float out[panel_rows] = {};
  };

  /// The results of `count` columns, by a tile that goes on from 1.5 if `add`, or by few (then without `add`).
  std::vector<float> run(const Kernels& kernels, int count, bool add, bool few) {
    QuantColumn args[tile_columns];
    for (int c = 0; c < count; ++c) {
      Column& from = columns[c];
      std::fill_n(from.out, panel_rows, 1.5F);
      args[c] = {from.q.data(), from.d.data(), from.sum.data(), from.half.data(), from.wide.data(), from.out};
    }
    const SlabFormat format = slab_format(type);
    const Ahead nothing{panel.data()->bytes, 0, 0};
    if (few) {
      kernels.few[static_cast<int>(type)]({&shape, panel.data()->bytes, args, count, count == 1, nothing});
    } else {
      kernels.tile[static_cast<int>(format.kind)](
          {slab.data()->bytes, shape.columns / 32, format.zero, args, count, add, nothing});
    }
    std::vector<float> out;
    for (int c = 0; c < count; ++c) out.insert(out.end(), columns[c].out, columns[c].out + panel_rows);
    return out;
  }

  /// The results of `count` columns as a group, the second of two equal ones.
  std::vector<float> run_group(const Kernels& kernels, int count, bool add) {
    const std::int64_t blocks = shape.columns / 32;
    QuantColumn args[tile_columns];
    std::vector<float> room(static_cast<std::size_t>(2 * group_columns * panel_rows), 1.5F);
    GroupTarget targets[2];
    for (int c = 0; c < 2 * group_columns; ++c) {
      targets[c / group_columns].out[c % group_columns] = room.data() + panel_rows * c;
    }
    for (GroupTarget& target : targets) target.ahead = {panel.data()->bytes, 0, 0};
    for (int c = 0; c < count; ++c) {
      const Column& from = columns[c];
      args[c] = {from.q.data(), from.d.data(), from.sum.data(), from.half.data(), nullptr, nullptr};
    }
    const SlabFormat format = slab_format(type);
    std::vector<ColumnGroup> group(static_cast<std::size_t>(2 * blocks));
    for (int i = 0; i < 2; ++i) group_columns_of(args, count, blocks, format, group.data() + i * blocks);
    GroupArgs group_args;
    group_args.from = slab.data()->bytes;
    group_args.blocks = blocks;
    group_args.columns = group.data();
    group_args.group_step = blocks;
    group_args.targets = targets;
    group_args.groups = 2;
    group_args.count = count;
    group_args.add = add;
    kernels.group_tile[static_cast<int>(format.kind)](group_args);
    const float* const second = targets[1].out[0];
    REQUIRE(std::equal(second, second + panel_rows * count, room.data()));
    return {second, second + panel_rows * count};
  }

  WeightType type;
  PackedShape shape;
  std::mt19937 random;
  std::vector<Line> panel{}, slab{};
  Column columns[tile_columns]{};
};

TEST_CASE("kernels for dot products of bytes: the bits of the portable tiles") {
  const Kernels portable = choose_kernels("portable");
  Kernels emulated[2] = {portable, portable};
  wide::add(emulated[0]);
  narrow::add(emulated[1]);
  for (WeightType type : weight_types) {
    if (slab_format(type).kind == SlabKind::real) continue;
    Case c(type, 512, portable);
    for (int count = 1; count <= tile_columns; ++count) {
      for (bool add : {false, true}) {
        const std::vector<float> truth = c.run(portable, count, add, false);
        for (const Kernels& kernels : emulated) {
          INFO(describe(type).name << " columns " << count << " add " << add);
          REQUIRE(c.run(kernels, count, add, false) == truth);
          if (kernels.few[static_cast<int>(type)] != nullptr && !add)
            REQUIRE(c.run(kernels, count, false, true) == truth);
          if (kernels.group_tile[static_cast<int>(slab_format(type).kind)] != nullptr)
            REQUIRE(c.run_group(kernels, count, add) == truth);
        }
      }
    }
  }
}

}  // namespace
}  // namespace llminfer::cpu::test
