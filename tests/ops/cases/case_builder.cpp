#include "case_builder.h"

#include <algorithm>
#include <numeric>

namespace llminfer::op_cases {

using backend::Rows;

CaseBuilder::CaseBuilder(std::string name) : name_(std::move(name)), random_(std::string_view(name_)) {}

ValueId CaseBuilder::value(Rows rows, std::int32_t width) {
  graph_.values.push_back({rows, width});
  return static_cast<ValueId>(graph_.values.size() - 1);
}

void CaseBuilder::push(backend::Op op) {
  if (graph_.groups.empty()) group(backend::GroupKind::ffn, 0);
  graph_.ops.push_back(op);
  ++graph_.groups.back().count;
}

void CaseBuilder::group(backend::GroupKind kind, std::int32_t layer) {
  graph_.groups.push_back({kind, layer, static_cast<std::int32_t>(graph_.ops.size()), 0});
}

ValueId CaseBuilder::input(std::int32_t width, std::int32_t rows, bool specials) {
  std::vector<float> values(static_cast<std::size_t>(width) * static_cast<std::size_t>(rows));
  for (float& v : values) v = static_cast<float>(random_.normal());
  constexpr float sizes[] = {1.0F, 0.0F, 1e-38F, 1e30F};
  for (std::size_t row = 1; specials && row < 4 && row < static_cast<std::size_t>(rows); ++row) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(width); ++i) {
      values[row * static_cast<std::size_t>(width) + i] *= sizes[row];
    }
  }
  return input(width, values);
}

ValueId CaseBuilder::input(std::int32_t width, std::span<const float> rows) {
  const auto count = static_cast<std::int32_t>(rows.size() / static_cast<std::size_t>(width));
  graph_.vocabulary = count;
  backend::Embed op;
  op.weight = float_weight(width, count, rows);
  op.out = value(Rows::tokens, width);
  push(op);
  return op.out;
}

WeightId CaseBuilder::weight(WeightType type, std::int64_t columns, std::int64_t rows, std::int64_t experts,
                             double rms) {
  std::string name = "w";
  name += std::to_string(graph_.weights.size());
  graph_.weights.push_back({name, type, columns, rows, experts, backend::Cut::none});
  weights_.push_back(random_weights(type, columns, rows * experts, rms, random_));
  return static_cast<WeightId>(weights_.size() - 1);
}

WeightId CaseBuilder::float_weight(std::int64_t columns, std::int64_t rows, std::span<const float> values) {
  std::string name = "w";
  name += std::to_string(graph_.weights.size());
  graph_.weights.push_back({name, WeightType::f32, columns, rows, 1, backend::Cut::none});
  weights_.push_back(float_bytes(values));
  return static_cast<WeightId>(weights_.size() - 1);
}

WeightId CaseBuilder::vector(std::int64_t columns, double mean, double spread) {
  std::vector<float> values(static_cast<std::size_t>(columns));
  for (float& v : values) v = static_cast<float>(mean + spread * random_.normal());
  return float_weight(columns, 1, values);
}

ValueId CaseBuilder::slice(ValueId in, std::int32_t offset, std::int32_t width) {
  return add(backend::Slice{in, none, offset}, in, width);
}

ValueId CaseBuilder::gather(ValueId in) {
  backend::GatherRows op{in, value(Rows::outputs, width(in))};
  push(op);
  return op.out;
}

backend::StateSlot CaseBuilder::state(std::int32_t window, std::int32_t heads, std::int32_t k_width,
                                      std::int32_t v_width) {
  auto& states = graph_.states;
  std::size_t g = 0;
  while (g < states.size() && !(states[g].window == window && states[g].heads == heads &&
                                states[g].k_width == k_width && states[g].v_width == v_width)) {
    ++g;
  }
  if (g == states.size()) {
    const auto kind = window > 0 ? backend::StateKind::windowed : backend::StateKind::paged;
    states.push_back({kind, window, 0, heads, k_width, v_width});
  }
  return {static_cast<std::int32_t>(g), states[g].layers++};
}

CaseStep& CaseBuilder::step(std::vector<Part> parts) {
  CaseStep step;
  for (const Part& part : parts) {
    for (std::int32_t i = 0; i < part.count; ++i) step.tokens.push_back(next_token_++ % graph_.vocabulary);
    graph_.context = std::max(graph_.context, part.start + part.count);
  }
  step.parts = std::move(parts);
  step.output_rows.resize(step.tokens.size());
  std::iota(step.output_rows.begin(), step.output_rows.end(), 0);
  steps_.push_back(std::move(step));
  return steps_.back();
}

OpCase CaseBuilder::finish(ValueId out, double limit, double magnitude) {
  if (graph_.values[static_cast<std::size_t>(out)].rows == Rows::tokens) out = gather(out);
  graph_.logits = out;
  OpCase done;
  done.name = std::move(name_);
  done.graph = std::make_shared<const backend::Graph>(std::move(graph_));
  done.weights = std::move(weights_);
  done.kv = kv;
  done.steps = std::move(steps_);
  done.limit = limit;
  done.magnitude = magnitude;
  return done;
}

}  // namespace llminfer::op_cases
