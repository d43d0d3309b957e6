// The comparison with goldens notices each kind of deviation, and nothing else.
#include "golden/compare.h"

#include <functional>

#include "catch.h"

using nlohmann::json;

namespace {

// 1,000 positions with 3 listed tokens each, in one line; 4 greedy tokens of the 4 asked for.
json example() {
  json top = json::array();
  json tokens = json::array();
  for (int i = 0; i < 1000; ++i) {
    top.push_back({{7, -0.5}, {8, -1.25}, {9, -9.0}});
    tokens.push_back(i);
  }
  return {{"text", "example"}, {"tokens", tokens},       {"top", top},
          {"nll", 1000.0},     {"greedy", {3, 4, 5, 6}}, {"gap", {1.0, 0.009, 0.2, 2.0}}};
}

std::size_t failures(
    golden::Limits limits, const std::function<void(json&)>& change,
    const std::function<void(json&)>& change_golden = [](json&) {}) {
  limits.greedy = 4;
  json expected = example();
  json ours = example();
  change_golden(expected);
  change(ours);
  golden::Comparison comparison(limits);
  comparison.add(expected, ours);
  comparison.finish();
  return comparison.failures().size();
}

}  // namespace

TEST_CASE("Equal outputs pass, as do deviations within the limits") {
  for (const golden::Limits& limits : {golden::reference_limits(), golden::cpu_limits(), golden::cpu_f16_limits()}) {
    CHECK(failures(limits, [](json&) {}) == 0);
    CHECK(failures(limits, [](json& ours) { ours["top"][5][0][1] = -0.5019; }) == 0);
    CHECK(failures(limits, [](json& ours) { ours["top"][5][2][1] = -9.0099; }) == 0);
    CHECK(failures(limits, [](json& ours) { ours["nll"] = 1000.19; }) == 0);
    CHECK(failures(limits, [](json& ours) { std::swap(ours["top"][5][0], ours["top"][5][1]); }) == 0);
    CHECK(failures(limits, [](json& ours) { ours["greedy"] = {3, 44, 45, 46}; }) == 0);
  }
}

TEST_CASE("Deviations beyond the reference's limits are failures") {
  const golden::Limits limits = golden::reference_limits();
  CHECK(failures(limits, [](json& ours) { ours["top"][5][0][1] = -0.5021; }) == 1);
  CHECK(failures(limits, [](json& ours) { ours["top"][5][2][1] = -9.0101; }) == 1);
  CHECK(failures(limits, [](json& ours) { ours["top"][5][2][0] = 10; }) == 1);
  CHECK(failures(limits, [](json& ours) { ours["nll"] = 1000.21; }) == 1);
  CHECK(failures(limits, [](json& ours) { ours["greedy"] = {3, 4, 45, 46}; }) == 1);
  CHECK(failures(limits, [](json& ours) {
          for (int i = 0; i < 2; ++i) std::swap(ours["top"][i][0], ours["top"][i][1]);
        }) == 1);
}

TEST_CASE("Deviations beyond the cpu's limits are failures") {
  const golden::Limits limits = golden::cpu_limits();
  CHECK(failures(limits, [](json& ours) { ours["top"][5][0][1] = -0.6; }) == 0);
  CHECK(failures(limits, [](json& ours) { ours["nll"] = 994.9; }) == 1);
  CHECK(failures(limits, [](json& ours) { ours["greedy"] = {3, 4, 45, 46}; }) == 0);
  CHECK(failures(limits, [](json& ours) { ours["greedy"] = {3, 4, 5, 46}; }) == 1);
  CHECK(failures(limits, [](json& ours) {
          for (int i = 0; i < 21; ++i) std::swap(ours["top"][i][0], ours["top"][i][1]);
        }) == 1);
}

TEST_CASE("Halves have narrower limits than the cpu's default, other formats none") {
  const golden::Limits limits = golden::limits_of("cpu", "f16");
  const auto departs = [](json& ours) { ours["greedy"] = {3, 44, 5, 6}; };
  const auto gap_of = [](double gap) { return [gap](json& expected) { expected["gap"][1] = gap; }; };
  CHECK(failures(limits, departs, gap_of(0.29)) == 0);
  CHECK(failures(limits, departs, gap_of(0.31)) == 1);
  CHECK(failures(golden::limits_of("cpu", "automatic"), departs, gap_of(0.31)) == 0);
  CHECK(failures(golden::limits_of("reference", "automatic"), departs, gap_of(0.31)) == 1);
  CHECK_THROWS_AS(golden::limits_of("cpu", "q8_0"), std::runtime_error);
  CHECK_THROWS_AS(golden::limits_of("reference", "f16"), std::runtime_error);
}

TEST_CASE("Other tokens, other texts, other lengths are failures") {
  const golden::Limits limits = golden::cpu_limits();
  CHECK(failures(limits, [](json& ours) { ours["text"] = "another"; }) == 1);
  CHECK(failures(limits, [](json& ours) { ours["tokens"][5] = 6; }) >= 1);
  CHECK(failures(limits, [](json& ours) { ours["top"].erase(999); }) >= 1);
  CHECK(failures(limits, [](json& ours) { ours["greedy"] = {3}; }) == 1);
  CHECK(failures(
            limits, [](json&) {},
            [](json& expected) {
              expected["greedy"] = {3, 4, 5};
            }) == 1);
  golden::Comparison nothing(limits);
  nothing.finish();
  CHECK_FALSE(nothing.failures().empty());
}
