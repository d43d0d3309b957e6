// Philox4x32-10, the counter-based generator of Salmon et al. 2011 ("Parallel random numbers: as easy as 1, 2, 3"):
// a pure function of counter and key, so a draw depends on nothing that happened before it.
#pragma once

#include <array>
#include <cstdint>

namespace llminfer::runtime {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
    const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key[0] += 0x9E3779B9;  // Weyl sequences: golden ratio, sqrt(3) - 1
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// The random numbers of one choice. Layout: key {seed low, seed high}, counter {position, attempt, sequence, purpose}.
struct StepRandom {
  std::uint64_t seed = 0;
  std::uint32_t sequence = 0;  ///< tells apart sequences of one seed (several answers to one prompt)
  std::uint32_t position = 0;  ///< of the token to be chosen, counted from the start of the history
  std::uint32_t attempt = 0;   ///< how often this position has been taken back

  /// In [0, 1), a multiple of 2^-24. Purpose 0 draws the token, 1 + i belongs to the chain's i-th sampler.
  constexpr float uniform(std::uint32_t purpose) const noexcept {
    const PhiloxKey key{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
    const std::uint32_t word = philox4x32_10({position, attempt, sequence, purpose}, key)[0];
    return static_cast<float>(word >> 8) * 0x1p-24f;
  }
};

}  // namespace llminfer::runtime
