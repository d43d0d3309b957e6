// Baseline code: what the compiler makes of plain loops.
#include "device/cpu/peak.h"

namespace llminfer::cpu::portable {
namespace {

constexpr int chains = 32;

std::uint64_t read(const std::byte* data, std::size_t bytes) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(data);
  std::uint64_t sums[32] = {};
  for (std::size_t i = 0; i < bytes / 8; i += 32) {
    for (std::size_t k = 0; k < 32; ++k) sums[k] += words[i + k];
  }
  std::uint64_t total = 0;
  for (const std::uint64_t s : sums) total += s;
  return total;
}

float multiply_add(std::int64_t rounds) {
  float x[chains], factor = 0.999F, sum = 0;
  for (int i = 0; i < chains; ++i) x[i] = static_cast<float>(i);
  for (std::int64_t r = 0; r < rounds; ++r) {
    for (float& v : x) v = v * factor + 1.0F;
  }
  for (const float v : x) sum += v;
  return sum;
}

}  // namespace

void add_peak_loops(PeakLoops& loops) noexcept {
  loops.read = read;
  loops.f32 = multiply_add;
  loops.f32_ops = 2 * chains;
}

}  // namespace llminfer::cpu::portable
