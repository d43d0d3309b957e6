// add, scale, softcap, gated_activation.
#include "case_builder.h"
#include "limits.h"

namespace llminfer::op_cases {
namespace {

constexpr std::int32_t rows = 33;
constexpr std::int32_t widths[] = {1, 3, 8, 31, 96, 1000};

void add_steps(CaseBuilder& b) {
  for (const std::int32_t n : {1, 2, 33}) b.step(n);
}

OpCase add(const std::string& name, std::int32_t width) {
  CaseBuilder b(name);
  const ValueId in = b.input(2 * width, rows, true);
  const ValueId x = b.slice(in, 0, width);
  const ValueId y = b.slice(in, width, width);
  const ValueId sum = b.add(backend::Add{x, y}, x, width);
  const ValueId out = b.add(backend::Add{sum, sum}, x, width);
  add_steps(b);
  return b.finish(out, limits::one_rounding);
}

OpCase scale(const std::string& name, std::int32_t width, float factor) {
  CaseBuilder b(name);
  const ValueId in = b.input(width, rows, true);
  const ValueId out = b.add(backend::Scale{in, none, factor}, in, width);
  add_steps(b);
  return b.finish(out, limits::one_rounding);
}

OpCase softcap(const std::string& name, std::int32_t width, float cap) {
  CaseBuilder b(name);
  const ValueId in = b.input(width, rows, true);
  const ValueId wide = b.add(backend::Scale{in, none, 20.0F}, in, width);
  const ValueId out = b.add(backend::Softcap{wide, none, cap}, in, width);
  add_steps(b);
  return b.finish(out, limits::softcap, cap);
}

/// Gates from -size to size.
OpCase activation(const std::string& name, backend::Activation kind, std::int32_t width, double size) {
  CaseBuilder b(name);
  std::vector<float> values(static_cast<std::size_t>(2 * width * rows));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool gate = i % static_cast<std::size_t>(2 * width) < static_cast<std::size_t>(width);
    values[i] = static_cast<float>(gate ? size * (2 * b.random().uniform() - 1) : 3 * b.random().normal());
  }
  const ValueId in = b.input(2 * width, values);
  const ValueId gate = b.slice(in, 0, width);
  backend::GatedActivation op;
  op.gate = gate;
  op.up = b.slice(in, width, width);
  op.kind = kind;
  const ValueId out = b.add(op, gate, width);
  add_steps(b);
  return b.finish(out, limits::activation, 1e-3);
}

/// Values at which an exponential overflows, underflows or a polynomial's range ends, all in one row.
OpCase extremes(const std::string& name, backend::Activation kind) {
  constexpr float gates[] = {0.0F,    -0.0F,  1e-38F,  -1e-38F, 1e-20F, 87.3F, 88.8F,  -87.3F, -88.8F, -103.9F,  104.0F,
                             -104.5F, 700.0F, -700.0F, 1e5F,    -1e5F,  1e18F, -1e18F, 7.0F,   -7.0F,  7.00001F, 0.5F};
  constexpr auto width = static_cast<std::int32_t>(std::size(gates));
  CaseBuilder b(name);
  // Each gate has a row of its own, so that a large one does not hide the others' errors.
  std::vector<float> values;
  for (const float gate : gates) {
    for (std::int32_t i = 0; i < width; ++i) values.push_back(gate);
    for (std::int32_t i = 0; i < width; ++i) values.push_back(static_cast<float>(i - 9));
  }
  const ValueId in = b.input(2 * width, values);
  backend::GatedActivation op;
  op.gate = b.slice(in, 0, width);
  op.up = b.slice(in, width, width);
  op.kind = kind;
  const ValueId out = b.add(op, op.gate, width);
  b.step(width);
  return b.finish(out, limits::activation, 1e-3);
}

}  // namespace

void add_elementwise_cases(CaseList& list) {
  for (const std::int32_t width : widths) {
    const std::string w = std::to_string(width);
    list.push_back({"add/" + w, false, [=](const std::string& n) { return add(n, width); }});
    list.push_back({"scale/" + w, false, [=](const std::string& n) { return scale(n, width, 0.3F); }});
    list.push_back({"softcap/" + w, false, [=](const std::string& n) { return softcap(n, width, 30.0F); }});
  }
  list.push_back({"scale/zero", false, [](const std::string& n) { return scale(n, 40, 0.0F); }});
  list.push_back({"scale/negative", false, [](const std::string& n) { return scale(n, 40, -1e6F); }});
  list.push_back({"softcap/small cap", false, [](const std::string& n) { return softcap(n, 40, 0.01F); }});
  struct Kind {
    backend::Activation kind;
    const char* name;
  };
  for (const Kind k : {Kind{backend::Activation::silu, "silu"},
                       {backend::Activation::gelu_tanh, "gelu_tanh"},
                       {backend::Activation::swiglu_clip, "swiglu_clip"}}) {
    const std::string name = "gated_activation/" + std::string(k.name);
    for (const std::int32_t width : widths) {
      list.push_back({name + " " + std::to_string(width), false,
                      [=](const std::string& n) { return activation(n, k.kind, width, 8); }});
    }
    list.push_back({name + " wide range", false, [=](const std::string& n) { return activation(n, k.kind, 96, 120); }});
    list.push_back({name + " extremes", false, [=](const std::string& n) { return extremes(n, k.kind); }});
  }
}

}  // namespace llminfer::op_cases
