#include "graph/builder.h"

#include <algorithm>
#include <utility>

#include "graph/check.h"

namespace llminfer::graph {

using namespace backend;  // op structs

WeightId GraphBuilder::weight(Weight weight) {
  graph_.weights.push_back(std::move(weight));
  return static_cast<WeightId>(graph_.weights.size() - 1);
}

std::int32_t GraphBuilder::rope_table(RopeTable table) {
  std::pmr::vector<RopeTable>& tables = graph_.rope_tables;
  const auto same = [&](const RopeTable& t) {
    return t.magnitude == table.magnitude && t.inverse_frequency == table.inverse_frequency;
  };
  const auto found = std::find_if(tables.begin(), tables.end(), same);
  const auto index = static_cast<std::int32_t>(found - tables.begin());
  if (found == tables.end()) tables.push_back(std::move(table));
  return index;
}

StateSlot GraphBuilder::state(std::int32_t window, std::int32_t heads, std::int32_t k_width, std::int32_t v_width) {
  std::pmr::vector<StateGroup>& states = graph_.states;
  const auto same = [&](const StateGroup& s) {
    return s.window == window && s.heads == heads && s.k_width == k_width && s.v_width == v_width;
  };
  auto found = std::find_if(states.begin(), states.end(), same);
  const auto index = static_cast<std::int32_t>(found - states.begin());
  if (found == states.end()) {
    const StateKind kind = window > 0 ? StateKind::windowed : StateKind::paged;
    states.push_back({kind, window, 0, heads, k_width, v_width});
    found = states.end() - 1;
  }
  return {index, found->layers++};
}

void GraphBuilder::group(GroupKind kind, std::int32_t layer) {
  if (!graph_.groups.empty() && graph_.groups.back().count == 0) graph_.groups.pop_back();
  graph_.groups.push_back({kind, layer, static_cast<std::int32_t>(graph_.ops.size()), 0});
}

std::int32_t GraphBuilder::width(ValueId id) const {
  const auto index = static_cast<std::size_t>(id);
  return id >= 0 && index < graph_.values.size() ? graph_.values[index].width : 0;
}

ValueId GraphBuilder::value(std::int32_t width, Rows rows) {
  graph_.values.push_back({rows, width});
  return static_cast<ValueId>(graph_.values.size() - 1);
}

ValueId GraphBuilder::like(ValueId other, std::int32_t width) {
  const auto index = static_cast<std::size_t>(other);
  const Rows rows = other >= 0 && index < graph_.values.size() ? graph_.values[index].rows : Rows::tokens;
  return value(width, rows);
}

ValueId GraphBuilder::push(Op op, ValueId out) {
  if (graph_.groups.empty()) graph_.groups.push_back({});
  graph_.ops.push_back(op);
  ++graph_.groups.back().count;
  return out;
}

ValueId GraphBuilder::embed(WeightId weight, float scale) {
  const ValueId out =
      value(static_cast<std::int32_t>(graph_.weights[static_cast<std::size_t>(weight)].columns), Rows::tokens);
  return push(Embed{weight, out, scale}, out);
}

ValueId GraphBuilder::rms_norm(ValueId in, WeightId weight, std::int32_t group, float eps) {
  const ValueId out = like(in, width(in));
  return push(RmsNorm{in, weight, out, group, eps}, out);
}

ValueId GraphBuilder::layer_norm(ValueId in, WeightId weight, WeightId bias, float eps) {
  const ValueId out = like(in, width(in));
  return push(LayerNorm{in, weight, bias, out, eps}, out);
}

ValueId GraphBuilder::matmul(ValueId in, WeightId weight, WeightId bias) {
  const ValueId out = like(in, static_cast<std::int32_t>(graph_.weights[static_cast<std::size_t>(weight)].rows));
  return push(MatMul{in, weight, bias, out}, out);
}

ValueId GraphBuilder::rope(ValueId in, std::int32_t table, std::int32_t heads, RopePairing pairing) {
  const ValueId out = like(in, width(in));
  return push(Rope{in, out, table, heads, heads > 0 ? width(in) / heads : 0, pairing}, out);
}

void GraphBuilder::kv_write(ValueId k, ValueId v, StateSlot slot) { push(KvWrite{k, v, slot}, none); }

ValueId GraphBuilder::attention(PagedAttention op) {
  const std::int32_t v_width = graph_.states[static_cast<std::size_t>(op.slot.group)].v_width;
  op.out = like(op.q, op.heads * v_width);
  return push(op, op.out);
}

ValueId GraphBuilder::gated_activation(ValueId gate, ValueId up, Activation kind) {
  GatedActivation op{gate, up, like(gate, width(gate)), kind};
  return push(op, op.out);
}

ValueId GraphBuilder::add(ValueId a, ValueId b) {
  const ValueId out = like(a, width(a));
  return push(Add{a, b, out}, out);
}

ValueId GraphBuilder::scale(ValueId in, float factor) {
  const ValueId out = like(in, width(in));
  return push(Scale{in, out, factor}, out);
}

ValueId GraphBuilder::softcap(ValueId in, float cap) {
  const ValueId out = like(in, width(in));
  return push(Softcap{in, out, cap}, out);
}

ValueId GraphBuilder::slice(ValueId in, std::int32_t offset, std::int32_t columns) {
  const ValueId out = like(in, columns);
  return push(Slice{in, out, offset}, out);
}

ValueId GraphBuilder::gather_rows(ValueId in) {
  const ValueId out = value(width(in), Rows::outputs);
  return push(GatherRows{in, out}, out);
}

ValueId GraphBuilder::moe_route(MoeRoute op) {
  op.out = like(op.in, 2 * op.used);
  return push(op, op.out);
}

ValueId GraphBuilder::moe_matmul(ValueId in, ValueId route, std::int32_t used, WeightId weight, WeightId bias) {
  const auto rows = static_cast<std::int32_t>(graph_.weights[static_cast<std::size_t>(weight)].rows);
  const ValueId out = like(in, rows * used);
  return push(MoeMatMul{in, route, weight, bias, out, used}, out);
}

ValueId GraphBuilder::moe_combine(ValueId in, ValueId route, std::int32_t used) {
  const ValueId out = like(in, used > 0 ? width(in) / used : 0);
  return push(MoeCombine{in, route, out, used}, out);
}

Graph GraphBuilder::finish(ValueId logits, ValueId hidden, std::int32_t vocabulary, std::int32_t context) {
  Graph graph(std::move(graph_));  // leaves empty lists of the same memory
  if (!graph.groups.empty() && graph.groups.back().count == 0) graph.groups.pop_back();
  graph.logits = logits;
  graph.hidden = hidden;
  graph.vocabulary = vocabulary;
  graph.context = context;
  check(graph);
  return graph;
}

}  // namespace llminfer::graph
