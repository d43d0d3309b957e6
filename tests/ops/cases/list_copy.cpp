// embed, slice, gather_rows.
#include "case_builder.h"
#include "limits.h"

namespace llminfer::op_cases {
namespace {

OpCase embed(const std::string& name, WeightType type, std::int32_t width, float scale) {
  CaseBuilder b(name);
  constexpr std::int32_t vocabulary = 37;
  backend::Embed op;
  op.weight = b.weight(type, width, vocabulary, 1, 1.0);
  op.out = b.value(backend::Rows::tokens, width);
  op.scale = scale;
  b.graph().vocabulary = vocabulary;
  b.push(op);
  for (const std::int32_t n : {1, 2, 37, 70}) b.step(n);
  return b.finish(op.out, limits::embed);
}

OpCase slice(const std::string& name, std::int32_t width, std::int32_t offset, std::int32_t columns) {
  CaseBuilder b(name);
  const ValueId out = b.slice(b.input(width, 40), offset, columns);
  for (const std::int32_t n : {1, 3, 40}) b.step(n);
  return b.finish(out, limits::copy);
}

OpCase gather(const std::string& name, std::int32_t width) {
  CaseBuilder b(name);
  const ValueId in = b.input(width, 40);
  b.step(1);
  b.step(40).output_rows = {0, 7, 8, 39};
  b.step(40).output_rows = {};
  b.step(17).output_rows = {16};
  b.step({{0, 0, 5}, {1, 0, 1}, {2, 9, 20}}).output_rows = {4, 5, 25};
  return b.finish(in, limits::copy);
}

}  // namespace

void add_copy_cases(CaseList& list) {
  for (const WeightType type : all_weight_types()) {
    const auto block = static_cast<std::int32_t>(describe(type).block_size);
    for (const std::int32_t width : {block, block == 1 ? 67 : 3 * block}) {
      const std::string name = "embed/" + lower_name(type) + " " + std::to_string(width);
      list.push_back({name, false, [=](const std::string& n) { return embed(n, type, width, 1.0F); }});
      list.push_back({name + " scaled", false, [=](const std::string& n) { return embed(n, type, width, 25.5F); }});
    }
  }
  struct Shape {
    std::int32_t width, offset, columns;
  };
  for (const Shape s : {Shape{1, 0, 1}, {5, 4, 1}, {96, 0, 96}, {97, 13, 64}, {1024, 512, 512}}) {
    const std::string name =
        "slice/" + std::to_string(s.width) + " from " + std::to_string(s.offset) + " " + std::to_string(s.columns);
    list.push_back({name, false, [=](const std::string& n) { return slice(n, s.width, s.offset, s.columns); }});
  }
  for (const std::int32_t width : {1, 33, 576}) {
    list.push_back(
        {"gather_rows/" + std::to_string(width), false, [=](const std::string& n) { return gather(n, width); }});
  }
}

}  // namespace llminfer::op_cases
