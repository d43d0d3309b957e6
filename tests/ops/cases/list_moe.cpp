// moe_route, moe_matmul, moe_combine.
#include <cmath>

#include "case_builder.h"
#include "limits.h"

namespace llminfer::op_cases {
namespace {

struct Route {
  std::int32_t experts = 8;
  std::int32_t used = 2;
  backend::Gating gating = backend::Gating::softmax;
  bool bias = false;
  bool normalize = false;
  float scale = 1.0F;
  bool ties = false;
};

backend::MoeRoute route_op(const Route& r, CaseBuilder& b, ValueId logits) {
  backend::MoeRoute op;
  op.in = logits;
  op.selection_bias = r.bias ? b.vector(r.experts, 0.0, 0.3) : none;
  op.experts = r.experts;
  op.used = r.used;
  op.gating = r.gating;
  op.normalize = r.normalize;
  op.scale = r.scale;
  return op;
}

OpCase route(const std::string& name, const Route& r) {
  CaseBuilder b(name);
  std::vector<float> values(static_cast<std::size_t>(40 * r.experts));
  for (float& v : values) {
    // Ties: few different values, so that many experts have equal logits.
    v = r.ties ? static_cast<float>(b.random().below(3)) : static_cast<float>(2 * b.random().normal());
  }
  const ValueId in = b.input(r.experts, values);
  const ValueId out = b.add(route_op(r, b, in), in, 2 * r.used);
  for (const std::int32_t n : {1, 3, 40}) b.step(n);
  OpCase done = b.finish(out, limits::route);
  done.exact_ids = r.used;
  return done;
}

struct Experts {
  WeightType type = WeightType::f32;
  std::int32_t columns = 96;
  std::int32_t width = 33;
  std::int32_t experts = 6;
  std::int32_t used = 2;
  bool shared = true;  ///< one input for all chosen experts, or one each
  bool bias = false;
  bool combine = false;
};

/// Input rows: router logits, then the experts' input.
OpCase experts(const std::string& name, const Experts& e) {
  CaseBuilder b(name);
  const std::int32_t in_width = e.shared ? e.columns : e.used * e.columns;
  const ValueId in = b.input(e.experts + in_width, 66);
  Route r;
  r.experts = e.experts;
  r.used = e.used;
  r.gating = backend::Gating::softmax_selected;
  const ValueId logits = b.slice(in, 0, e.experts);
  backend::MoeMatMul op;
  op.in = b.slice(in, e.experts, in_width);
  op.route = b.add(route_op(r, b, logits), in, 2 * e.used);
  op.weight = b.weight(e.type, e.columns, e.width, e.experts, 1.0 / std::sqrt(e.columns));
  if (e.bias) {
    std::vector<float> values(static_cast<std::size_t>(e.experts * e.width));
    for (float& v : values) v = static_cast<float>(b.random().normal());
    op.bias = b.float_weight(e.width, e.experts, values);
  }
  op.used = e.used;
  ValueId out = b.add(op, in, e.used * e.width);
  if (e.combine) out = b.add(backend::MoeCombine{out, op.route, none, e.used}, in, e.width);
  for (const std::int32_t n : {1, 2, 3, 7, 33, 65}) b.step(n);
  return b.finish(out, limits::matmul(e.type), 1.0);
}

OpCase combine(const std::string& name, std::int32_t count, std::int32_t used, std::int32_t width) {
  CaseBuilder b(name);
  const ValueId in = b.input(count + used * width, 40);
  Route r;
  r.experts = count;
  r.used = used;
  const ValueId logits = b.slice(in, 0, count);
  const ValueId chosen = b.add(route_op(r, b, logits), in, 2 * used);
  const ValueId values = b.slice(in, count, used * width);
  const ValueId out = b.add(backend::MoeCombine{values, chosen, none, used}, in, width);
  for (const std::int32_t n : {1, 3, 40}) b.step(n);
  return b.finish(out, limits::combine, 0.1);
}

void add_routes(CaseList& list) {
  struct Gating {
    backend::Gating gating;
    const char* name;
  };
  for (const Gating g : {Gating{backend::Gating::softmax, "softmax"},
                         {backend::Gating::sigmoid, "sigmoid"},
                         {backend::Gating::softmax_selected, "softmax_selected"}}) {
    const auto add = [&](const std::string& name, Route r) {
      r.gating = g.gating;
      list.push_back(
          {"moe_route/" + std::string(g.name) + " " + name, false, [=](const std::string& n) { return route(n, r); }});
    };
    add("1 of 1", {1, 1});
    add("2 of 8", {8, 2});
    add("5 of 5", {5, 5});
    add("8 of 128", {128, 8});
    add("normalized", {32, 4, g.gating, false, true, 1.0F});
    add("normalized and scaled", {32, 4, g.gating, false, true, 2.5F});
    add("scaled", {32, 4, g.gating, false, false, 2.5F});
    add("bias", {32, 4, g.gating, true, false, 1.0F});
    add("bias normalized scaled", {64, 6, g.gating, true, true, 1.5F});
    add("ties", {16, 4, g.gating, false, false, 1.0F, true});
    add("ties bias", {16, 4, g.gating, true, true, 1.0F, true});
  }
}

}  // namespace

void add_moe_cases(CaseList& list) {
  add_routes(list);
  for (const WeightType type : all_weight_types()) {
    const auto block = static_cast<std::int32_t>(describe(type).block_size);
    const std::string prefix = "moe_matmul/" + lower_name(type) + " ";
    const auto add = [&](const std::string& name, Experts e) {
      e.type = type;
      e.columns = block == 256 ? 256 : 96;
      list.push_back({prefix + name, false, [=](const std::string& n) { return experts(n, e); }});
    };
    add("shared input", {type, 0, 33, 6, 2, true, false, false});
    add("shared input bias", {type, 0, 64, 4, 4, true, true, false});
    add("input per expert", {type, 0, 33, 6, 3, false, false, false});
    add("input per expert bias combined", {type, 0, 64, 8, 2, false, true, true});
    add("one expert", {type, 0, 1, 1, 1, true, false, false});
  }
  list.push_back({"moe_combine/1 of 1", false, [](const std::string& n) { return combine(n, 1, 1, 7); }});
  list.push_back({"moe_combine/2 of 8", false, [](const std::string& n) { return combine(n, 8, 2, 96); }});
  list.push_back({"moe_combine/8 of 60", false, [](const std::string& n) { return combine(n, 60, 8, 257); }});
}

}  // namespace llminfer::op_cases
