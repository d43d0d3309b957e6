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

namespace {

/// Half of the smallest half: as exact as a cache of halves would be.
constexpr double least = 0x1p-25;

// Sizes of rows. A scale is that by about 50 for q8_0, by 3 for q4_0; below 6e-5 it is a half that is not normal, below
// 3e-8 nothing.
float subnormal(bool, int, int) { return 1e-4F; }
float smallest(bool, int key, int column) { return (key + column / 32) % 2 == 0 ? 4e-6F : 3e-7F; }
float nothing(bool, int, int) { return 0; }
float too_small(bool, int key, int) { return key % 3 == 0 ? 1e-41F : key % 3 == 1 ? 1e-30F : 1e-10F; }
float zeros_between(bool, int key, int column) { return (key + column / 32) % 2 == 0 ? 0.0F : 1.0F; }
/// Groups of one row: one of the largest, beside one whose scale is not normal.
float large_beside_small(bool values, int, int column) {
  if (column / 32 % 2 != 0) return 1e-4F;
  return values ? 1e4F : 1.0F;
}
/// Rows of one page.
float large_behind_small(bool values, int key, int) {
  if (key % 2 != 0) return 1e-4F;
  return values ? 1e4F : 1.0F;
}
float large(bool, int, int) { return 1e4F; }

AttentionShape of_sizes(KvType type, int width, float (*size)(bool, int, int)) {
  AttentionShape s;
  s.type = type;
  s.width = width;
  s.kv_heads = 1;
  s.group = 3;
  s.sequences = {{40, 18}, {37, 1}, {0, 1}};  // by tiles; few tokens
  s.size = size;
  return s;
}

}  // namespace

TEST_CASE("attention over quantized caches with scales that are tiny, nothing, or far apart") {
  struct Named {
    const char* name;
    float (*size)(bool, int, int);
  };
  for (const KvType type : {KvType::q8_0, KvType::q4_0}) {
    for (const int width : {80, 128, 256}) {
      for (const Named& n :
           {Named{"subnormal", subnormal}, Named{"smallest", smallest}, Named{"nothing", nothing},
            Named{"too small", too_small}, Named{"zeros between", zeros_between},
            Named{"large beside small", large_beside_small}, Named{"large behind small", large_behind_small}}) {
        INFO("format " << static_cast<int>(type) << ", heads of " << width << ": " << n.name);
        AttentionProblem p(of_sizes(type, width, n.size));
        p.run();
        no_findings();
        CHECK(p.error(32, least / most_error) <= most_error);
      }
    }
  }
}

TEST_CASE("attention over keys of any size gives no value that no key has") {
  for (const KvType type : formats) {
    AttentionProblem p(of_sizes(type, 128, large));
    p.run();
    no_findings();
    for (const float v : p.out()) CHECK(std::fabs(v) < 6e4F);
  }
}

}  // namespace ptxsim::tests
