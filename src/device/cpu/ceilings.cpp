#include "device/cpu/ceilings.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/cpu_info.h"
#include "core/fail.h"
#include "core/thread_pool.h"
#include "device/cpu/peak.h"
#include "device/cpu/target.h"

namespace llminfer::cpu {
namespace {

constexpr std::size_t grain = 4096;
constexpr double busy_spread = 0.15;  // quiet machines stay below a few percent

/// One thing measured: what all threads do in a round, and how much of it. `amount` counts all threads together.
struct Probe {
  std::function<void(int thread)> body;
  double amount = 0;
  std::vector<double> rates{};
};

/// All probes of one number of threads, run in turn, so that what disturbs the machine disturbs all alike.
class Probes {
 public:
  Probes(int threads, const PeakLoops& loops, std::span<std::byte> buffer)
      : pool_(threads), loops_(loops), buffer_(buffer) {}

  void add_all(const core::CacheSizes& caches) {
    const std::size_t part = buffer_.size() / static_cast<std::size_t>(threads()) / grain * grain;
    add([this, part](int t) { keep(loops_.read(at(t, part), part)); }, static_cast<double>(part) * threads());
    const std::size_t half = part / 2 / grain * grain;
    add([this, part, half](int t) { std::memcpy(at(t, part), at(t, part) + half, half); },
        2.0 * static_cast<double>(half) * threads());
    add_rate(loops_.f32, loops_.f32_ops);
    add_rate(loops_.int8, loops_.int8_ops);
    add_rate(loops_.bf16, loops_.bf16_ops);
    const std::size_t sizes[] = {caches.l1, caches.l2, caches.l3};
    for (int level = 1; level <= 3; ++level) add_cache(level, sizes[level - 1], part);
  }

  /// One round of everything.
  void round() {
    for (Probe& probe : probes_) {
      if (probe.amount > 0) probe.rates.push_back(probe.amount / time(probe));
    }
  }

  ThreadCeilings result() {
    ThreadCeilings out;
    out.threads = threads();
    out.read = rate(probes_[0]);
    out.copy = rate(probes_[1]);
    out.f32 = rate(probes_[2]);
    out.int8 = rate(probes_[3]);
    out.bf16 = rate(probes_[4]);
    for (std::size_t i = 0; i < caches_.size(); ++i) {
      out.caches.push_back(caches_[i]);
      out.caches.back().read = rate(probes_[5 + i]);
    }
    out.barrier_s = barrier();
    return out;
  }

 private:
  int threads() const noexcept { return pool_.threads(); }
  std::byte* at(int thread, std::size_t part) noexcept {
    return buffer_.data() + static_cast<std::size_t>(thread) * part;
  }
  void keep(std::uint64_t value) noexcept { sink_.fetch_add(value, std::memory_order_relaxed); }

  void add(std::function<void(int)> body, double amount) { probes_.push_back({std::move(body), amount, {}}); }

  template <class Value>
  void add_rate(Value (*loop)(std::int64_t), std::int64_t ops) {
    if (loop == nullptr) return add([](int) {}, 0);
    const std::int64_t rounds = ops < 10'000 ? 200'000 : 20'000;  // one to two milliseconds, with tiles less
    add([this, loop, rounds](int) { keep(static_cast<std::uint64_t>(static_cast<std::int64_t>(loop(rounds)))); },
        static_cast<double>(rounds * ops) * threads());
  }

  /// Half of a cache, read until a round takes a millisecond or so. The last cache is shared by all threads.
  void add_cache(int level, std::size_t bytes, std::size_t part) {
    std::size_t own = bytes / 2;
    if (level == 3) own /= static_cast<std::size_t>(threads());
    own = own / 1024 * 1024;
    if (own == 0 || own > part) return;
    const std::size_t most = level == 1   ? std::size_t{128} << 20
                             : level == 2 ? std::size_t{64} << 20
                                          : std::size_t{32} << 20;
    const std::size_t times = std::max<std::size_t>(2, most / own);
    caches_.push_back({level, bytes, {}});
    add(
        [this, own, part, times](int t) {
          std::uint64_t sum = 0;
          for (std::size_t i = 0; i < times; ++i) sum += loops_.read(at(t, part), own);
          keep(sum);
        },
        static_cast<double>(own * times) * threads());
  }

  /// From the moment when all threads are there until the last is done. Nothing of a probe's body can throw.
  double time(const Probe& probe) noexcept {
    std::int64_t start = 0, end = 0;
    core::parallel(pool_, [&](int thread, int) noexcept {
      pool_.barrier(thread);
      if (thread == 0) start = core::SteadyClock().now_ns();
      probe.body(thread);
      pool_.barrier(thread);
      if (thread == 0) end = core::SteadyClock().now_ns();
    });
    return std::max(1e-9, static_cast<double>(end - start) * 1e-9);
  }

  double barrier() noexcept {
    constexpr int count = 1000;
    double best = 1;
    for (int round = 0; round < 5; ++round) {
      std::int64_t start = 0, end = 0;
      core::parallel(pool_, [&](int thread, int) noexcept {
        pool_.barrier(thread);
        if (thread == 0) start = core::SteadyClock().now_ns();
        for (int i = 0; i < count; ++i) pool_.barrier(thread);
        if (thread == 0) end = core::SteadyClock().now_ns();
      });
      best = std::min(best, static_cast<double>(end - start) * 1e-9 / count);
    }
    return best;
  }

  static MeasuredRate rate(Probe& probe) {
    if (probe.rates.empty()) return {};
    std::sort(probe.rates.begin(), probe.rates.end());
    const double best = probe.rates.back();
    return {best, (best - probe.rates[probe.rates.size() / 2]) / best};
  }

  core::ThreadPool pool_;
  const PeakLoops& loops_;
  std::span<std::byte> buffer_;
  std::vector<Probe> probes_;
  std::vector<CacheCeiling> caches_;
  std::atomic<std::uint64_t> sink_{0};
};

/// 1, 2, 4, ..., the device's, and all cores of the process.
std::vector<int> thread_counts(int threads, int cores) {
  std::vector<int> out = {threads, std::max(threads, cores)};
  for (int n = 1; n < out.back(); n *= 2) out.push_back(n);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace

PeakLoops peak_loops_of(std::string_view isa) noexcept {
  PeakLoops loops;
  portable::add_peak_loops(loops);
#if LLMINFER_CPU_X86
  if (isa != "portable") avx2::add_peak_loops(loops);
  if (isa == "avxvnni") avxvnni::add_peak_loops(loops);
  if (isa == "avx512" || isa == "avx512bf16" || isa == "amx") avx512::add_peak_loops(loops);
  if (isa == "avx512bf16") avx512::add_bf16_peak_loop(loops);
  if (isa == "amx") avx512::add_amx_peak_loop(loops);
#endif
#if LLMINFER_CPU_NEON
  if (isa != "portable") neon::add_peak_loops(loops);
  if (isa == "dotprod" || isa == "i8mm") neon::add_dot_peak_loops(loops);
#endif
  return loops;
}

std::size_t ceilings_buffer(const core::CacheSizes& caches) noexcept {
  constexpr std::size_t least = std::size_t{256} << 20, most = std::size_t{1} << 30;
  const std::size_t last = std::min(std::max({caches.l1, caches.l2, caches.l3}), most);
  return std::clamp(last + last / 2, least, most) / grain * grain;
}

Ceilings measure(const Kernels& kernels, int threads, double seconds, const std::shared_ptr<core::Memory>& memory) {
  const bool in_range = seconds >= 0.05 && seconds <= 60;  // false for NaN
  if (!in_range) core::fail(ErrorCode::invalid_argument, "seconds: {} is not in 0.05 .. 60", seconds);
  constexpr int least_rounds = 3;
  const PeakLoops loops = peak_loops_of(kernels.name);
  const core::CpuInfo cpu = core::detect_cpu();
  const std::size_t buffer_bytes = ceilings_buffer(cpu.caches);
  core::Buffer buffer = core::Buffer::make(memory, buffer_bytes);
  std::memset(buffer.data(), 1, buffer_bytes);
  Ceilings out;
  const std::vector<int> counts = thread_counts(threads, cpu.cores.usable);
  const double each = seconds / static_cast<double>(counts.size());
  const core::SteadyClock clock;
  for (const int count : counts) {
    Probes probes(count, loops, {buffer.data(), buffer_bytes});
    probes.add_all(cpu.caches);
    const std::int64_t end = clock.now_ns() + static_cast<std::int64_t>(each * 1e9);
    for (int round = 0; round < least_rounds || clock.now_ns() < end; ++round) probes.round();
    out.at.push_back(probes.result());
  }
  out.threads = threads;
  const ThreadCeilings& all = out.all();
  out.busy = all.read.spread > busy_spread || all.f32.spread > busy_spread;
  return out;
}

}  // namespace llminfer::cpu
