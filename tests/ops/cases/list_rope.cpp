// rope: both pairings, parts of a head, large positions.
#include <cmath>

#include "case_builder.h"
#include "limits.h"

namespace llminfer::op_cases {
namespace {

struct Shape {
  std::int32_t heads, head_width, pairs;
};

OpCase rope(const std::string& name, Shape s, backend::RopePairing pairing, float magnitude) {
  CaseBuilder b(name);
  const std::int32_t width = s.heads * s.head_width;
  const ValueId in = b.input(width, 64);
  backend::RopeTable table;
  table.magnitude = magnitude;
  for (std::int32_t i = 0; i < s.pairs; ++i) {
    table.inverse_frequency.push_back(static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / s.pairs)));
  }
  b.graph().rope_tables.push_back(std::move(table));
  const ValueId out = b.add(backend::Rope{in, none, 0, s.heads, s.head_width, pairing}, in, width);
  b.step(1);
  b.step(33);
  b.step(7, 4000);
  b.step(5, 131065);
  b.step({{0, 1000000, 2}, {1, 0, 3}, {2, 77, 1}});
  return b.finish(out, limits::rope);
}

}  // namespace

void add_rope_cases(CaseList& list) {
  for (const Shape s : {Shape{1, 2, 1},
                        {3, 8, 4},
                        {2, 7, 3},
                        {9, 64, 32},
                        {4, 80, 16},
                        {4, 96, 48},
                        {2, 128, 64},
                        {2, 256, 128},
                        {3, 80, 1}}) {
    const std::string name = "rope/" + std::to_string(s.heads) + " heads of " + std::to_string(s.head_width) + ", " +
                             std::to_string(s.pairs) + " pairs";
    list.push_back(
        {name + " half", false, [=](const std::string& n) { return rope(n, s, backend::RopePairing::half, 1.0F); }});
    list.push_back({name + " interleaved", false,
                    [=](const std::string& n) { return rope(n, s, backend::RopePairing::interleaved, 1.25F); }});
  }
}

}  // namespace llminfer::op_cases
