// Attention on tensor cores over every cache format and width, against the exact result on what the cache holds.
#include "attention_problem.h"

namespace ptxsim::tests {
namespace {

constexpr KvType formats[] = {KvType::f16, KvType::bf16, KvType::q8_0, KvType::q4_0};
constexpr int widths[] = {64, 80, 96, 128, 256};
constexpr double most_error = 2e-3;

double error_of(const AttentionShape& shape) {
  AttentionProblem p(shape);
  p.run();
  no_findings();
  return p.error();
}

}  // namespace

TEST_CASE("attention over every cache format and width of heads") {
  for (const KvType type : formats) {
    for (const int width : widths) {
      AttentionShape s;
      s.type = type;
      s.width = width;
      s.kv_heads = 1;
      s.group = 3;
      s.sequences = {{90, 25}, {37, 1}, {0, 9}};
      INFO("format " << static_cast<int>(type) << ", heads of " << width);
      CHECK(error_of(s) <= most_error);
    }
  }
}

TEST_CASE("attention with windows, caps, sinks and groups of heads") {
  for (const KvType type : formats) {
    for (const int group : {1, 4, 8, 16}) {
      for (const int window : {0, 1, 20, 70}) {
        AttentionShape s;
        s.type = type;
        s.kv_heads = group < 8 ? 2 : 1;
        s.group = group;
        s.window = window;
        s.cap = window == 20 || group == 4 ? 3.0F : 0;
        s.sinks = window >= 20;
        s.full = group == 8 && window == 0;
        s.sequences = {{0, 11}, {100, 18}, {16, 3}, {63, 9}};
        INFO("format " << static_cast<int>(type) << ", " << group << " heads on a KV head, window " << window);
        CHECK(error_of(s) <= most_error);
      }
    }
  }
}

TEST_CASE("attention has the same bits in every order") {
  for (const KvType type : formats) {
    for (const int width : {80, 128}) {
      AttentionShape s;
      s.type = type;
      s.width = width;
      s.kv_heads = 1;
      s.group = 4;
      s.sequences = {{50, 20}, {300, 2}};
      AttentionProblem p(s);
      p.run();
      const std::vector<float> expected = p.out();
      for (const Options& options : all_modes()) {
        simulated_device().options = options;
        p.run();
        CHECK((p.out() == expected));
        simulated_device().options = {};
      }
      no_findings();
    }
  }
}

TEST_CASE("a prompt's rows do not depend on what else is in the step") {
  for (const KvType type : formats) {
    AttentionShape s;
    s.type = type;
    s.group = 4;
    s.sequences = {{30, 40}};
    AttentionProblem alone(s);
    alone.run();
    s.sequences.push_back({200, 17});
    s.sequences.push_back({0, 2});
    AttentionProblem beside(s);  // in other pages, too
    beside.run();
    const std::vector<float> expected = alone.out(), all = beside.out();
    REQUIRE(all.size() > expected.size());
    CHECK((std::equal(expected.begin(), expected.end(), all.begin())));
  }
  no_findings();
}

}  // namespace ptxsim::tests
