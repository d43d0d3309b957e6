// matmul in every weight format, from 1 to 65 rows of input.
#include <cmath>

#include "case_builder.h"
#include "limits.h"

namespace llminfer::op_cases {
namespace {

OpCase matmul(const std::string& name, WeightType type, std::int32_t columns, std::int32_t width, bool bias) {
  CaseBuilder b(name);
  // Alone in its row, a sum that cancels has nothing to be compared with but its terms of normal size.
  const bool specials = width >= 16;
  const ValueId in = b.input(columns, 66, specials);
  const WeightId weight = b.weight(type, columns, width, 1, 1.0 / std::sqrt(columns));
  const WeightId bias_weight = bias ? b.vector(width, 0.0, 1.0) : none;
  const ValueId out = b.add(backend::MatMul{in, weight, bias_weight, none}, in, width);
  for (const std::int32_t n : {1, 2, 3, 7, 16, 33, 65}) b.step(n);
  return b.finish(out, limits::matmul(type), 1.0);
}

/// Rows of output instead of rows of tokens: none, one, some.
OpCase head(const std::string& name, WeightType type, std::int32_t columns, std::int32_t width) {
  CaseBuilder b(name);
  const ValueId in = b.gather(b.input(columns, 66));
  const WeightId weight = b.weight(type, columns, width, 1, 1.0 / std::sqrt(columns));
  const ValueId out = b.add(backend::MatMul{in, weight, none, none}, in, width);
  b.step(5).output_rows = {};
  b.step(5).output_rows = {4};
  b.step(33).output_rows = {0, 1, 2, 17, 31};
  b.step(33);
  return b.finish(out, limits::matmul(type), 1.0);
}

std::vector<std::int32_t> lengths(WeightType type) {
  switch (describe(type).block_size) {
    case 1:
      return {1, 7, 64, 300};
    case 32:
      return {32, 96, 576};
    default:
      return {256, 768};
  }
}

}  // namespace

void add_matmul_cases(CaseList& list) {
  for (const WeightType type : all_weight_types()) {
    const std::string prefix = "matmul/" + lower_name(type) + " ";
    for (const std::int32_t columns : lengths(type)) {
      for (const std::int32_t width : {1, 3, 33, 64, 130}) {
        const std::string name = prefix + std::to_string(columns) + "x" + std::to_string(width);
        const bool bias = width % 2 == 1;
        list.push_back({name + (bias ? " bias" : ""), false,
                        [=](const std::string& n) { return matmul(n, type, columns, width, bias); }});
      }
    }
    list.push_back(
        {prefix + "768x97 output rows", false, [=](const std::string& n) { return head(n, type, 768, 97); }});
    list.push_back(
        {prefix + "4096x1023", true, [=](const std::string& n) { return matmul(n, type, 4096, 1023, true); }});
  }
  for (const WeightType type : {WeightType::q4_0, WeightType::q4_k, WeightType::f16}) {
    list.push_back({"matmul/" + lower_name(type) + " 14336x4096", true,
                    [=](const std::string& n) { return matmul(n, type, 14336, 4096, false); }});
  }
}

}  // namespace llminfer::op_cases
