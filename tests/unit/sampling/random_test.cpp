#include <cmath>

#include "catch.h"
#include "runtime/sampling/math.h"
#include "runtime/sampling/philox.h"

using namespace llminfer::runtime;

TEST_CASE("Philox4x32-10 gives the published vectors") {
  // The known answers of the Random123 distribution.
  CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) == PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint32_t ones = 0xffffffff;
  CHECK(philox4x32_10({ones, ones, ones, ones}, {ones, ones}) ==
        PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("A draw depends on each part of its key") {
  const StepRandom base{0x0000000500000003, 1, 7, 0};
  const float u = base.uniform(0);
  CHECK(u == static_cast<float>(philox4x32_10({7, 0, 1, 0}, {3, 5})[0] >> 8) / 16777216.0f);
  CHECK(u == StepRandom{0x0000000500000003, 1, 7, 0}.uniform(0));
  CHECK(u != StepRandom{0x0000000500000004, 1, 7, 0}.uniform(0));
  CHECK(u != StepRandom{0x0000000600000003, 1, 7, 0}.uniform(0));
  CHECK(u != StepRandom{0x0000000500000003, 2, 7, 0}.uniform(0));
  CHECK(u != StepRandom{0x0000000500000003, 1, 8, 0}.uniform(0));
  CHECK(u != StepRandom{0x0000000500000003, 1, 7, 1}.uniform(0));
  CHECK(u != base.uniform(1));
}

TEST_CASE("Draws are uniform in [0, 1)") {
  double sum = 0;
  for (std::uint32_t position = 0; position < 20000; ++position) {
    const float u = StepRandom{42, 0, position, 0}.uniform(0);
    REQUIRE(u >= 0.0f);
    REQUIRE(u < 1.0f);
    sum += static_cast<double>(u);
  }
  CHECK(sum / 20000 == Approx(0.5).margin(0.01));  // five standard deviations
}

TEST_CASE("Own exponential and logarithm agree with the C library") {
  double worst_exp = 0;
  double worst_log = 0;
  double worst_fast = 0;
  for (int i = 0; i <= 200000; ++i) {
    const double x = -700.0 + i * 0.0069;
    worst_exp = std::max(worst_exp, std::abs(exp64(x) / std::exp(x) - 1));
    const double y = std::exp(x / 2);
    worst_log = std::max(worst_log, std::abs(log64(y) - std::log(y)) / std::max(1.0, std::abs(std::log(y))));
    const float z = static_cast<float>(i) * -0.0004f;
    worst_fast = std::max(worst_fast, std::abs(static_cast<double>(exp32(z)) / std::exp(static_cast<double>(z)) - 1));
  }
  CHECK(worst_exp < 1e-15);
  CHECK(worst_log < 1e-15);
  CHECK(worst_fast < 3e-7);
}

TEST_CASE("Exponential and logarithm at their ends") {
  CHECK(exp64(0) == 1);
  CHECK(exp64(minus_infinity) == 0);
  CHECK(exp64(-709) == 0);
  CHECK(std::isinf(exp64(710)));
  CHECK(log64(0) == minus_infinity);
  CHECK(log64(1) == 0);
  CHECK(log64(5e-324) == Approx(std::log(5e-324)).epsilon(1e-15));
  CHECK(pow64(0, 0) == 1);
  CHECK(pow64(0, 2) == 0);
  CHECK(exp32(0.0f) == 1.0f);
  CHECK(exp32(-89.0f) == 0.0f);
  CHECK(exp32(static_cast<float>(minus_infinity)) == 0.0f);
}

TEST_CASE("A sum of exponentials of any length") {
  std::vector<float> x;
  double expected = 0;
  for (std::size_t n = 0; n < 300; ++n) {
    CHECK(exp_sum(x.data(), n, 1.0f, 0.5f) == Approx(expected).epsilon(1e-6).margin(1e-30));
    x.push_back(std::sin(static_cast<float>(n)));
    expected += std::exp((static_cast<double>(x.back()) - 1.0) * 0.5);
  }
}
