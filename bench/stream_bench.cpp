// Matmul kernels of the CPU device over more weights than caches hold, all threads: GB/s of packed weights beside plain
// reading of the same memory, in turn, medians. op_bench has the rates from the cache.
//   stream_bench [isa=auto] [columns=768] [M=1] [threads=2] [MB=450] [rounds=9] [type ...]
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/memory.h"
#include "core/thread_pool.h"
#include "device/cpu/multiply.h"
#include "device/cpu/peak.h"

using namespace llminfer;

namespace {

struct alignas(64) Line {
  std::byte bytes[64];
};

/// One format: as many panels as fit the memory.
struct Weights {
  cpu::PlacedWeight weight{};
  std::int64_t panels = 0;
  std::vector<double> rates{};  // GB/s, of each round
};

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

class Bench {
 public:
  Bench(const cpu::Kernels& kernels, int threads, std::size_t bytes, std::int64_t columns, std::int64_t count)
      : kernels_(kernels),
        read_(cpu::peak_loops_of(kernels.name).read),
        pool_(threads),
        memory_(core::Buffer::make(std::make_shared<core::Memory>(0, true), bytes)),
        columns_(columns),
        count_(count),
        in_(static_cast<std::size_t>(columns * count), 0.5F),
        quant_lines_(static_cast<std::size_t>(columns * count) / 16 + 8),
        quant_(cpu::QuantRows::at(quant_lines_.data()->bytes, count, columns)),
        scratch_(static_cast<std::size_t>(threads)) {
    std::memset(memory_.data(), 0x11, bytes);
    for (std::int64_t m = 0; m < count; ++m) kernels.quantize(in_.data() + m * columns, columns, quant_.row(m));
  }

  Weights weights_of(WeightType type) const {
    Weights out;
    out.weight.shape = cpu::packed_shape(type, cpu::panel_rows, columns_);
    out.panels = static_cast<std::int64_t>(memory_.size()) / out.weight.shape.panel_bytes;
    out.weight.shape = cpu::packed_shape(type, cpu::panel_rows * out.panels, columns_);
    out.weight.slab = cpu::slab_format(type);
    return out;
  }

  double read() {
    const std::size_t part = memory_.size() / static_cast<std::size_t>(pool_.threads()) / 4096 * 4096;
    const double seconds = time([&](int t) {
      sink_.fetch_add(read_(memory_.data() + static_cast<std::size_t>(t) * part, part), std::memory_order_relaxed);
    });
    return static_cast<double>(part) * pool_.threads() / seconds * 1e-9;
  }

  double multiply(const Weights& w) {
    std::vector<float> out(static_cast<std::size_t>(cpu::panel_rows * w.panels * count_));
    for (auto& lines : scratch_) lines.resize(cpu::multiply_scratch(kernels_, w.weight) / sizeof(Line) + 1);
    cpu::Columns c;
    c.quant = quant_;
    c.real = in_.data();
    c.real_width = columns_;
    c.out = out.data();
    c.out_width = cpu::panel_rows * w.panels;
    c.count = count_;
    const double seconds = time([&](int t) {
      const core::Share share = core::share_of(w.panels, t, pool_.threads());
      cpu::multiply(kernels_, w.weight, memory_.data(), 0, {share.begin, share.end, 0}, c, nullptr,
                    scratch_[static_cast<std::size_t>(t)].data()->bytes);
    });
    return static_cast<double>(w.panels * w.weight.shape.panel_bytes) / seconds * 1e-9;
  }

 private:
  template <class Body>
  double time(Body&& body) {
    std::int64_t start = 0, end = 0;
    core::parallel(pool_, [&](int thread, int) noexcept {
      pool_.barrier(thread);
      if (thread == 0) start = core::SteadyClock().now_ns();
      body(thread);
      pool_.barrier(thread);
      if (thread == 0) end = core::SteadyClock().now_ns();
    });
    return std::max(1e-9, static_cast<double>(end - start) * 1e-9);
  }

  const cpu::Kernels& kernels_;
  std::uint64_t (*read_)(const std::byte*, std::size_t);
  core::ThreadPool pool_;
  core::Buffer memory_;
  std::int64_t columns_;
  std::int64_t count_;
  std::vector<float> in_;
  std::vector<Line> quant_lines_;
  cpu::QuantRows quant_;
  std::vector<std::vector<Line>> scratch_;
  std::atomic<std::uint64_t> sink_{0};
};

int number(int argc, char** argv, int at, int standard, int least, int most) {
  return argc > at ? std::clamp(std::atoi(argv[at]), least, most) : standard;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const cpu::Kernels kernels = cpu::choose_kernels(argc > 1 ? argv[1] : "auto");
    const std::int64_t columns = number(argc, argv, 2, 768, 256, 65536) / 256 * 256;
    const std::int64_t count = number(argc, argv, 3, 1, 1, 512);
    const int threads = number(argc, argv, 4, 2, 1, core::ThreadPool::max_threads);
    const std::size_t bytes = static_cast<std::size_t>(number(argc, argv, 5, 450, 64, 8192)) << 20;
    const int rounds = number(argc, argv, 6, 9, 1, 1000);
    Bench bench(kernels, threads, bytes, columns, count);
    std::vector<Weights> all;
    for (int t = static_cast<int>(WeightType::f16); t <= static_cast<int>(WeightType::mxfp4); ++t) {
      const WeightType type = static_cast<WeightType>(t);
      const auto wanted = [&](const char* name) { return describe(type).name == std::string_view(name); };
      if (argc <= 7 || std::any_of(argv + 7, argv + argc, wanted)) all.push_back(bench.weights_of(type));
    }
    std::vector<double> plain;
    for (int r = 0; r < rounds; ++r) {
      plain.push_back(bench.read());
      for (Weights& w : all) w.rates.push_back(bench.multiply(w));
    }
    const double read = median(plain);
    std::printf("%s, %d threads, %d columns wide, M %d: plain reading %.1f GB/s\n", kernels.name, threads,
                static_cast<int>(columns), static_cast<int>(count), read);
    for (const Weights& w : all) {
      std::printf("%-8s %5.1f GB/s  %3.0f %%\n", describe(w.weight.shape.type).name.data(), median(w.rates),
                  100 * median(w.rates) / read);
    }
  } catch (const Exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
