// rms_norm over rows and over heads, layer_norm.
#include "case_builder.h"
#include "limits.h"

namespace llminfer::op_cases {
namespace {

void add_steps(CaseBuilder& b) {
  for (const std::int32_t n : {1, 2, 3, 33}) b.step(n);
}

OpCase rms_norm(const std::string& name, std::int32_t width, std::int32_t group, float eps) {
  CaseBuilder b(name);
  const ValueId in = b.input(width, 33);
  const ValueId out = b.add(backend::RmsNorm{in, b.vector(group, 1.0, 0.5), none, group, eps}, in, width);
  add_steps(b);
  return b.finish(out, limits::norm);
}

/// Rows of zeros, of values whose squares vanish against eps, and large ones.
OpCase rms_norm_sizes(const std::string& name, std::int32_t width) {
  CaseBuilder b(name);
  constexpr float sizes[] = {0.0F, 1e-30F, 1e-3F, 1e6F, 1e15F};
  std::vector<float> values;
  for (const float size : sizes) {
    for (std::int32_t i = 0; i < width; ++i) values.push_back(static_cast<float>(size * b.random().normal()));
  }
  const ValueId in = b.input(width, values);
  const ValueId out = b.add(backend::RmsNorm{in, b.vector(width, 1.0, 0.5), none, width, 1e-6F}, in, width);
  b.step(5);
  return b.finish(out, limits::norm);
}

OpCase layer_norm(const std::string& name, std::int32_t width, bool bias, double mean) {
  CaseBuilder b(name);
  std::vector<float> values(static_cast<std::size_t>(33 * width));
  for (float& v : values) v = static_cast<float>(mean + b.random().normal());
  const ValueId in = b.input(width, values);
  const WeightId weight = b.vector(width, 1.0, 0.5);
  const ValueId out =
      b.add(backend::LayerNorm{in, weight, bias ? b.vector(width, 0.0, 1.0) : none, none, 1e-5F}, in, width);
  add_steps(b);
  return b.finish(out, limits::norm, 1.0);
}

}  // namespace

void add_norm_cases(CaseList& list) {
  for (const std::int32_t width : {1, 7, 64, 576, 1001, 4096}) {
    const std::string w = std::to_string(width);
    list.push_back({"rms_norm/" + w, false, [=](const std::string& n) { return rms_norm(n, width, width, 1e-5F); }});
    list.push_back({"layer_norm/" + w, false, [=](const std::string& n) { return layer_norm(n, width, false, 0); }});
    list.push_back(
        {"layer_norm/" + w + " bias", false, [=](const std::string& n) { return layer_norm(n, width, true, 0.5); }});
  }
  struct Heads {
    std::int32_t heads, width;
  };
  for (const Heads h : {Heads{2, 1}, {3, 8}, {9, 64}, {4, 80}, {8, 128}, {4, 256}}) {
    const std::string name = "rms_norm/" + std::to_string(h.heads) + " heads of " + std::to_string(h.width);
    list.push_back({name, false, [=](const std::string& n) { return rms_norm(n, h.heads * h.width, h.width, 1e-6F); }});
  }
  list.push_back({"rms_norm/sizes", false, [](const std::string& n) { return rms_norm_sizes(n, 96); }});
}

}  // namespace llminfer::op_cases
