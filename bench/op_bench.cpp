// Matmul kernels of the CPU device alone, one thread: GOPS (1 multiply-add = 2) and GB/s of packed weights, per type,
// number of columns M and instruction set, and the share of what 8-bit products from registers reach (multiply-adds of
// floats for float weights). The best of many short runs, so that a busy machine disturbs little.
//   op_bench [isa=auto] [rows=256] [columns=1536] [type]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "device/cpu/multiply.h"
#include "device/cpu/peak.h"

using namespace llminfer;

namespace {

struct alignas(64) Line {
  std::byte bytes[64];
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// GOPS of a loop, 0 where there is none.
template <class Value>
double peak_of(Value (*loop)(std::int64_t), std::int64_t ops) {
  constexpr std::int64_t rounds = 100'000;
  double best = 1e30;
  volatile double keep = 0;
  for (int i = 0; loop != nullptr && i < 20; ++i) {
    const double start = now();
    keep = keep + static_cast<double>(loop(rounds));
    best = std::min(best, now() - start);
  }
  return static_cast<double>(rounds * ops) / best * 1e-9;
}

struct Peaks {
  double int8 = 0, f32 = 0, bf16 = 0;
};

/// Random levels, scales of about 0.01.
std::vector<std::byte> weights(WeightType type, std::int64_t rows, const cpu::PackedShape& shape) {
  std::mt19937 random(1);
  std::vector<std::byte> out(static_cast<std::size_t>(rows * shape.row_bytes));
  const cpu::PanelLayout& layout = cpu::layout_of(type);
  for (std::byte& b : out) b = static_cast<std::byte>(random() & 0x3b);
  if (type == WeightType::f32 || type == WeightType::bf16) {  // no subnormal numbers: some processors take 100 cycles
    for (std::size_t i = type == WeightType::f32 ? 3 : 1; i < out.size(); i += type == WeightType::f32 ? 4 : 2) {
      out[i] = std::byte{0x3b};
    }
  }
  for (std::size_t at = 0; at + layout.block_bytes <= out.size(); at += layout.block_bytes) {
    const std::uint16_t scale = 0x211f;
    for (const cpu::BlockField& field : layout.smalls) {
      if (field.bytes == 2) std::memcpy(out.data() + at + field.offset, &scale, 2);
      if (field.bytes == 1) out[at + field.offset] = std::byte{121};  // 2^-7
    }
  }
  return out;
}

void measure(const cpu::Kernels& kernels, const Peaks& peaks, WeightType type, std::int64_t rows,
             std::int64_t columns) {
  cpu::PlacedWeight weight;
  weight.shape = cpu::packed_shape(type, rows, columns);
  weight.slab = cpu::slab_format(type);
  const std::vector<std::byte> from = weights(type, rows, weight.shape);
  std::vector<Line> arena(static_cast<std::size_t>(weight.shape.panels * weight.shape.panel_bytes) / 64 + 512);
  for (std::int64_t p = 0; p < weight.shape.panels; ++p) {
    cpu::pack_panel(weight.shape, from.data() + p * cpu::panel_rows * weight.shape.row_bytes, cpu::panel_rows,
                    arena.data()->bytes + p * weight.shape.panel_bytes);
  }
  std::vector<Line> slab(cpu::multiply_scratch(kernels, weight) / 64 + 1);
  std::printf("%-8s", describe(type).name.data());
  for (std::int64_t m : {1, 2, 4, 8, 32, 128, 512}) {
    std::vector<float> in(static_cast<std::size_t>(m * columns), 0.5F), out(static_cast<std::size_t>(m * rows));
    std::vector<Line> quant(static_cast<std::size_t>(m * columns * 2) / 64 + 1);
    cpu::Columns c;
    c.quant = cpu::QuantRows::at(quant.data()->bytes, m, columns);
    for (std::int64_t i = 0; i < m; ++i) {
      if (columns % 32 == 0) kernels.quantize(in.data() + i * columns, columns, c.quant.row(i));
    }
    c.real = in.data();
    c.real_width = columns;
    c.out = out.data();
    c.out_width = rows;
    c.count = m;
    double best = 1e30;
    const double end = now() + 0.3;
    while (now() < end) {
      const double start = now();
      cpu::multiply(kernels, weight, arena.data()->bytes, 0, {0, weight.shape.panels, 0}, c, nullptr, slab.data()->bytes);
      best = std::min(best, now() - start);
    }
    const double operations = 2.0 * static_cast<double>(rows * columns * m);
    const double bytes = static_cast<double>(weight.shape.panels * weight.shape.panel_bytes);
    const double peak = weight.slab.kind == cpu::SlabKind::real ? peaks.f32 : peaks.int8;
    const double rate = operations / best * 1e-9;
    std::printf("  M %3d: %5.0f GOPS %3.0f %% %5.1f GB/s", static_cast<int>(m), rate, peak > 0 ? 100 * rate / peak : 0,
                bytes / best * 1e-9);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const char* isa = argc > 1 ? argv[1] : "auto";
  const std::int64_t rows = std::max(16, argc > 2 ? std::atoi(argv[2]) / 16 * 16 : 256);
  const std::int64_t columns = std::max(256, argc > 3 ? std::atoi(argv[3]) / 256 * 256 : 1536);
  try {
    const cpu::Kernels kernels = cpu::choose_kernels(isa);
    const cpu::PeakLoops loops = cpu::peak_loops_of(kernels.name);
    const Peaks peaks{peak_of(loops.int8, loops.int8_ops), peak_of(loops.f32, loops.f32_ops),
                      peak_of(loops.bf16, loops.bf16_ops)};
    std::printf(
        "%s, one thread, %d x %d; from registers, GOPS: products of bytes %.0f, multiply-adds of floats %.0f, "
        "products of bf16 %.0f\n",
        kernels.name, static_cast<int>(rows), static_cast<int>(columns), peaks.int8, peaks.f32, peaks.bf16);
    for (int t = static_cast<int>(WeightType::f32); t <= static_cast<int>(WeightType::mxfp4); ++t) {
      const WeightType type = static_cast<WeightType>(t);
      if (argc <= 4 || describe(type).name == std::string_view(argv[4])) measure(kernels, peaks, type, rows, columns);
    }
  } catch (const Exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
