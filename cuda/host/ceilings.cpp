#include "host/ceilings.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "core/fail.h"
#include "host/errors.h"
#include "host/timer.h"
#include "kernels/ceilings.h"

namespace llminfer::cuda {
namespace {

constexpr std::uint64_t least_bytes = std::uint64_t{1} << 16;
constexpr double busy_spread = 0.15;

/// Two buffers in one, as large as there is room for.
Memory buffers_of(const std::shared_ptr<Engine>& engine, std::uint64_t& bytes) {
  for (;; bytes /= 2) {
    try {
      return Memory(engine, Memory::Kind::device, 2 * bytes + 16);
    } catch (const Exception& e) {
      if (e.error().code != ErrorCode::out_of_memory || bytes / 2 < least_bytes) throw;
    }
  }
}

MeasuredRate rate_of(Timer& timer, double amount, const CeilingsPlan& plan, const std::function<cudaError_t()>& work) {
  check(work(), "measuring");  // loads the kernel, wakes the clocks
  std::vector<double> rates;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(plan.seconds / 3);
  while (static_cast<int>(rates.size()) < plan.least || std::chrono::steady_clock::now() < end) {
    rates.push_back(amount / std::max(timer.seconds_of(work), 1e-9));
  }
  std::sort(rates.begin(), rates.end());
  return {rates.back(), (rates.back() - rates[rates.size() / 2]) / rates.back()};
}

}  // namespace

Ceilings measure_ceilings(const std::shared_ptr<Engine>& engine, const CeilingsPlan& plan) {
  const std::lock_guard<std::mutex> turn(engine->turn);
  std::uint64_t bytes = std::max(least_bytes, plan.bytes / 256 * 256);
  const Memory memory = buffers_of(engine, bytes);
  const std::int32_t blocks = 8 * engine->multiprocessors();
  const Memory sums(engine, Memory::Kind::device, std::uint64_t{256} * 4 * static_cast<std::uint64_t>(blocks));
  check(cudaMemsetAsync(memory.data(), 0, memory.size(), engine->stream()), "measuring");
  Timer timer(engine);

  StreamParams stream;
  stream.in = memory.data();
  stream.sink = memory.data() + 2 * bytes;
  stream.count = static_cast<std::int64_t>(bytes / 16);
  stream.blocks = blocks;
  ThreadCeilings all;
  all.read = rate_of(timer, static_cast<double>(bytes), plan, [&] { return launch(stream, engine->stream()); });
  stream.out = memory.data() + bytes;
  all.copy = rate_of(timer, 2 * static_cast<double>(bytes), plan, [&] { return launch(stream, engine->stream()); });
  const TensorParams tensor{sums.at<float>(0), 2 * engine->multiprocessors(), plan.rounds};
  all.bf16 = rate_of(timer, tensor_operations(tensor), plan, [&] { return launch(tensor, engine->stream()); });

  Ceilings c;
  c.threads = 1;
  c.busy = std::max({all.read.spread, all.copy.spread, all.bf16.spread}) > busy_spread;
  c.at.push_back(std::move(all));
  return c;
}

}  // namespace llminfer::cuda
