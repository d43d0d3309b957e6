// Tables of rotary embedding against values worked out by hand.
#include "models/rope.h"

#include <cmath>
#include <llminfer/error.hpp>
#include <vector>

#include "catch.h"

namespace llminfer::models {
namespace {

format::RopeParameters parameters(format::RopeScaling scaling, float factor, int original_context) {
  format::RopeParameters rope;
  rope.scaling = scaling;
  rope.factor = factor;
  rope.original_context_length = original_context;
  return rope;
}

void check_frequencies(const backend::RopeTable& table, const std::vector<double>& expected) {
  REQUIRE(table.inverse_frequency.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("pair " << i);
    CHECK(table.inverse_frequency[i] == Approx(expected[i]).epsilon(1e-6));
  }
}

ErrorCode code_of(const format::RopeParameters& rope, int dimensions, const std::vector<float>& divisors) {
  try {
    make_rope_table(rope, dimensions, false, divisors);
  } catch (const Exception& e) {
    return e.error().code;
  }
  return ErrorCode::mismatch;
}

}  // namespace

TEST_CASE("rope: no scaling") {
  const backend::RopeTable table = make_rope_table(parameters(format::RopeScaling::none, 4, 32), 8, false, {});
  check_frequencies(table, {1, 0.1, 0.01, 0.001});
  CHECK(table.magnitude == 1.0F);
  CHECK(make_rope_table(format::RopeParameters{}, 0, false, {}).inverse_frequency.empty());
}

TEST_CASE("rope: linear scaling divides every frequency") {
  const backend::RopeTable table = make_rope_table(parameters(format::RopeScaling::linear, 4, 32), 8, false, {});
  check_frequencies(table, {0.25, 0.025, 0.0025, 0.00025});
  CHECK(table.magnitude == 1.0F);
}

TEST_CASE("rope: windowed layers have their own base if the file gives one") {
  format::RopeParameters rope;
  rope.freq_base = 1e8F;
  check_frequencies(make_rope_table(rope, 4, true, {}), {1, 1e-4});
  rope.freq_base_swa = 1e4F;
  check_frequencies(make_rope_table(rope, 4, true, {}), {1, 1e-2});
  check_frequencies(make_rope_table(rope, 4, false, {}), {1, 1e-4});
}

// 16 dimensions, base 10,000, 4,096 tokens. A pair turns 32 times in them at 16 ln(4096 / (32 2 pi)) / (2 ln 10000) =
// 2.618 and once at 5.628: pairs up to 2 keep their frequency, from 6 on they are divided by 8, 1/4 steps between.
TEST_CASE("rope: YaRN") {
  format::RopeParameters rope = parameters(format::RopeScaling::yarn, 8, 4096);
  const std::vector<double> expected = {1,
                                        std::pow(10, -0.5),
                                        0.1,
                                        0.0316227766 * (0.75 + 0.25 / 8),
                                        0.01 * (0.5 + 0.5 / 8),
                                        0.00316227766 * (0.25 + 0.75 / 8),
                                        0.001 / 8,
                                        0.000316227766 / 8};
  const backend::RopeTable table = make_rope_table(rope, 16, false, {});
  check_frequencies(table, expected);
  CHECK(table.magnitude == Approx(1.2079441542));  // 1 + 0.1 ln 8

  SECTION("a ramp that begins before the first pair and is one pair wide") {
    rope = parameters(format::RopeScaling::yarn, 4, 32);
    const backend::RopeTable narrow = make_rope_table(rope, 8, false, {});
    check_frequencies(narrow, {1, 0.025, 0.0025, 0.00025});
    CHECK(narrow.magnitude == Approx(1.1386294361));
  }
  SECTION("other bounds: 4 and 2 rotations at 4.42 and 5.03") {
    rope.yarn_beta_fast = 4.0F;
    rope.yarn_beta_slow = 2.0F;
    const backend::RopeTable moved = make_rope_table(rope, 16, false, {});
    CHECK(moved.inverse_frequency[4] == Approx(0.01).epsilon(1e-6));
    CHECK(moved.inverse_frequency[5] == Approx(0.00316227766 * (0.5 + 0.5 / 8)).epsilon(1e-6));
    CHECK(moved.inverse_frequency[6] == Approx(0.001 / 8).epsilon(1e-6));
  }
  SECTION("the file's factor multiplies, the log multiplier divides") {
    rope.attn_factor = 2.0F;
    rope.yarn_log_multiplier = 0.5F;
    CHECK(make_rope_table(rope, 16, false, {}).magnitude == Approx(2 * 1.2079441542 / 1.1039720771));
  }
  SECTION("without extrapolation it is linear") {
    rope.yarn_ext_factor = 0.0F;
    const backend::RopeTable linear = make_rope_table(rope, 16, false, {});
    CHECK(linear.inverse_frequency[0] == Approx(0.125));
    CHECK(linear.magnitude == 1.0F);
  }
}

TEST_CASE("rope: divisors of the file") {
  format::RopeParameters rope = parameters(format::RopeScaling::longrope, 1, 4096);
  rope.attn_factor = 1.19F;
  const std::vector<float> divisors = {1, 2, 4, 8};
  const backend::RopeTable table = make_rope_table(rope, 8, false, divisors);
  check_frequencies(table, {1, 0.05, 0.0025, 0.000125});
  CHECK(table.magnitude == Approx(1.19));

  CHECK(code_of(rope, 8, {1, 2, 4}) == ErrorCode::corrupt);
  CHECK(code_of(rope, 8, {1, 2, 0, 8}) == ErrorCode::corrupt);
  CHECK(code_of(rope, 8, {1, 2, -4, 8}) == ErrorCode::corrupt);
  CHECK(code_of(rope, 8, {1, 2, INFINITY, 8}) == ErrorCode::corrupt);
  CHECK(code_of(rope, 8, {1, 2, NAN, 8}) == ErrorCode::corrupt);
}

}  // namespace llminfer::models
