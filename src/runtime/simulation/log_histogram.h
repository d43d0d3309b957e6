// Counts of durations from a nanosecond to centuries in buckets that are 1/128 of their value wide: quantiles of any
// number of values in 59 KB.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <llminfer/simulate.hpp>

namespace llminfer::runtime::simulation {

class LogHistogram {
 public:
  void add(std::int64_t ns) noexcept {
    const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(0, ns));
    ++buckets_[index(value)];
    ++count_;
    sum_ += static_cast<double>(value);
    most_ = std::max(most_, value);
  }
  std::int64_t count() const noexcept { return count_; }
  /// In seconds; all 0 without values.
  Quantiles quantiles() const noexcept {
    if (count_ == 0) return {};
    return {1e-9 * sum_ / static_cast<double>(count_), at(0.50), at(0.95), at(0.99), 1e-9 * static_cast<double>(most_)};
  }

 private:
  static constexpr int fine = 7;  // bits below the leading one that tell buckets apart

  static constexpr std::size_t index(std::uint64_t value) noexcept {
    if (value < (1U << fine)) return value;
    const int shift = 63 - std::countl_zero(value) - fine;
    return (static_cast<std::size_t>(shift) << fine) + static_cast<std::size_t>(value >> shift);
  }
  /// Middle of the bucket that holds the value of rank `share`, never above the largest value.
  double at(double share) const noexcept {
    const auto rank = static_cast<std::int64_t>(share * static_cast<double>(count_ - 1));
    std::int64_t seen = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (seen > rank) return 1e-9 * std::min(middle(i), static_cast<double>(most_));
    }
    return 1e-9 * static_cast<double>(most_);
  }
  static double middle(std::size_t i) noexcept {
    if (i < (2U << fine)) return static_cast<double>(i);
    const std::size_t shift = (i >> fine) - 1;
    const std::uint64_t low = ((i & ((1U << fine) - 1)) | (1U << fine));
    return (static_cast<double>(low) + 0.5) * static_cast<double>(std::uint64_t{1} << shift);
  }

  std::array<std::int64_t, static_cast<std::size_t>(64 - fine + 1) << fine> buckets_{};
  std::int64_t count_ = 0;
  double sum_ = 0;
  std::uint64_t most_ = 0;
};

}  // namespace llminfer::runtime::simulation
