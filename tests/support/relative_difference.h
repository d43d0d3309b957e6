// How far values are from those that they should be.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "catch.h"

namespace llminfer::test {

/// Root of the mean squared difference over that of `expected`; infinite where that is no number. As many of both.
inline double relative_difference(const std::vector<float>& values, const std::vector<float>& expected) {
  REQUIRE(values.size() == expected.size());
  double error = 0, size = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += std::pow(static_cast<double>(values[i]) - static_cast<double>(expected[i]), 2);
    size += std::pow(static_cast<double>(expected[i]), 2);
  }
  const double relative = std::sqrt(error / size);
  return std::isfinite(relative) ? relative : std::numeric_limits<double>::infinity();
}

}  // namespace llminfer::test
