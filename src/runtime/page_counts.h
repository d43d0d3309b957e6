// Numbers of pages by class: state groups with the same window have equal page tables, so one number serves them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace llminfer::runtime {

/// Pages of each class. Class 0 is that of the groups that keep everything, or else of the largest window. A plain
/// number converts to that many pages of class 0.
struct PageCounts {
  static constexpr std::size_t classes = 4;  ///< most different windows of a model

  constexpr PageCounts() noexcept = default;
  constexpr PageCounts(std::int64_t first) noexcept : n{first} {}  // NOLINT(google-explicit-constructor)

  std::array<std::int64_t, classes> n{};

  constexpr std::int64_t& operator[](std::size_t i) noexcept { return n[i]; }
  constexpr std::int64_t operator[](std::size_t i) const noexcept { return n[i]; }
  constexpr std::int64_t most() const noexcept { return *std::max_element(n.begin(), n.end()); }
  constexpr bool any() const noexcept { return most() > 0; }
  /// No class has more than `room` has.
  constexpr bool fit(const PageCounts& room) const noexcept {
    for (std::size_t i = 0; i < classes; ++i) {
      if (n[i] > room.n[i]) return false;
    }
    return true;
  }
  constexpr PageCounts& operator+=(const PageCounts& other) noexcept {
    for (std::size_t i = 0; i < classes; ++i) n[i] += other.n[i];
    return *this;
  }
  constexpr PageCounts& operator-=(const PageCounts& other) noexcept {
    for (std::size_t i = 0; i < classes; ++i) n[i] -= other.n[i];
    return *this;
  }
  friend constexpr PageCounts operator+(PageCounts a, const PageCounts& b) noexcept { return a += b; }
  friend constexpr PageCounts operator-(PageCounts a, const PageCounts& b) noexcept { return a -= b; }
  friend constexpr PageCounts least(PageCounts a, const PageCounts& b) noexcept {
    for (std::size_t i = 0; i < classes; ++i) a.n[i] = std::min(a.n[i], b.n[i]);
    return a;
  }
  friend constexpr bool operator==(const PageCounts&, const PageCounts&) noexcept = default;
};

}  // namespace llminfer::runtime
