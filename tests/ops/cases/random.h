// Numbers that are the same everywhere: splitmix64.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

namespace llminfer::op_cases {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  /// Seeded by a name, so that a new case changes no other.
  explicit Random(std::string_view name) : state_(0xcbf29ce484222325ULL) {
    for (const char c : name) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;  // FNV-1a
  }

  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  /// 0 .. n - 1
  std::int32_t below(std::int32_t n) { return static_cast<std::int32_t>(bits() % static_cast<std::uint64_t>(n)); }
  /// [0, 1)
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  /// Mean 0, variance 1 (Box-Muller).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

 private:
  std::uint64_t state_;
};

}  // namespace llminfer::op_cases
