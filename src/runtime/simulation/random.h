// Random numbers of simulated traffic: a seed gives the same ones on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace llminfer::runtime::simulation {

/// A bijection of 64 bits that spreads every bit over all of them (the finalizer of splitmix64).
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// splitmix64 (Steele, Lea, Flood 2014) with the distributions that traffic needs.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(mix(seed)) {}

  std::uint64_t bits() noexcept { return mix(state_ += 0x9E3779B97F4A7C15ULL); }
  /// In (0, 1).
  double uniform() noexcept { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; }
  std::uint64_t below(std::uint64_t n) noexcept { return (bits() >> 32) * n >> 32; }  // n < 2^32
  double normal() noexcept {                                                          // Box and Muller
    return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform());
  }
  /// Mean `shape`, variance `shape`: the method of Marsaglia and Tsang (2000).
  double gamma(double shape) noexcept {
    if (shape < 1) return gamma(shape + 1) * std::pow(uniform(), 1 / shape);
    const double d = shape - 1.0 / 3;
    const double c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = normal();
      const double root = 1 + c * x;
      if (root <= 0) continue;
      const double v = root * root * root;
      if (std::log(uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace llminfer::runtime::simulation
