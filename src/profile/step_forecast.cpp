#include "profile/step_forecast.h"

#include <algorithm>

namespace llminfer::profile {

Bound StepForecast::bound() const noexcept {
  const double most = std::max({memory_s, compute_s, kv_s, overhead_s});
  if (most == overhead_s && overhead_s > 0) return Bound::overhead;
  if (most == kv_s && kv_s > 0) return Bound::kv;
  return most == compute_s ? Bound::compute : Bound::memory;
}

StepForecast forecast_step(const CostModel& model, const backend::Graph& graph, const graph::BatchShape& batch) {
  StepForecast out;
  out.overhead_s = model.step_overhead(graph);
  const bool resident = model.resident(graph, batch);
  ShareCache shares;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const graph::OpCost cost = graph::cost_of(graph, i, batch);
    const RoofTime roof = model.roof(graph, i, cost, batch.kv, resident);
    if (roof.seconds() <= 0) continue;
    const double seconds = std::max(0.0, model.seconds(graph, i, cost, batch, resident, &shares) - model.op_overhead());
    out.overhead_s += model.op_overhead();
    const bool attention = family_of(graph.ops[i]) == KernelFamily::attention;
    // At decode an attention reads each key once for a handful of queries: that is the cache's cost whichever roof its
    // kernel meets first.
    const bool cache = attention && batch.tokens() == static_cast<std::int64_t>(batch.sequences.size());
    (cache ? out.kv_s : roof.by_compute() ? out.compute_s : out.memory_s) += seconds;
  }
  out.seconds = out.memory_s + out.compute_s + out.kv_s + out.overhead_s;
  return out;
}

graph::BatchShape decode_batch(int sequences, int context, backend::KvFormat kv) {
  graph::BatchShape batch;
  batch.sequences.assign(static_cast<std::size_t>(sequences), {context, 1});
  batch.outputs = sequences;
  batch.kv = kv;
  return batch;
}

double decode_rate(const CostModel& model, const backend::Graph& graph, const graph::BatchShape& batch) {
  const auto n = static_cast<double>(batch.sequences.size());
  return n / (forecast_step(model, graph, batch).seconds + n * model.sample_seconds(graph));
}

StepForecast forecast_prefill(const CostModel& model, const backend::Graph& graph, int prompt, int step_tokens,
                              backend::KvFormat kv) {
  StepForecast out;
  for (int start = 0; start < prompt; start += step_tokens) {
    graph::BatchShape batch;
    batch.sequences.push_back({start, std::min(step_tokens, prompt - start)});
    batch.outputs = start + step_tokens >= prompt ? 1 : 0;
    batch.kv = kv;
    const StepForecast step = forecast_step(model, graph, batch);
    out.seconds += step.seconds;
    out.memory_s += step.memory_s;
    out.compute_s += step.compute_s;
    out.kv_s += step.kv_s;
    out.overhead_s += step.overhead_s;
  }
  return out;
}

int knee_of(const CostModel& model, const backend::Graph& graph, int context, backend::KvFormat kv) {
  // Products alone: what a batch shares. Kernels for few rows may change from one batch size to the next, so the knee
  // is where the last doubling that paid ends.
  const auto products = [&](int sequences) {
    const graph::BatchShape batch = decode_batch(sequences, context, kv);
    double seconds = 0;
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      if (family_of(graph.ops[i]) != KernelFamily::matmul) continue;
      seconds += model.seconds(graph, i, graph::cost_of(graph, i, batch), batch, false) - model.op_overhead();
    }
    return seconds;
  };
  constexpr double pays = 1.7;  // a doubled batch in less than this times the time
  constexpr int most = 4096;
  int knee = 1;
  double last = products(1);
  for (int n = 2; n <= most; n *= 2) {
    const double seconds = products(n);
    if (seconds < pays * last) knee = n;
    last = seconds;
  }
  return knee < most ? knee : 0;
}

backend::Graph with_weight_type(const backend::Graph& graph, WeightType type) {
  backend::Graph out = graph;
  const WeightTypeInfo& info = describe(type);
  for (const backend::Op& op : graph.ops) {
    backend::WeightId id = backend::none;
    if (const auto* m = std::get_if<backend::MatMul>(&op)) id = m->weight;
    if (const auto* m = std::get_if<backend::MoeMatMul>(&op)) id = m->weight;
    if (id == backend::none || info.block_size == 0) continue;
    backend::Weight& weight = out.weights[static_cast<std::size_t>(id)];
    if (weight.columns % info.block_size == 0) weight.type = type;
  }
  return out;
}

std::uint64_t weight_bytes_of(const backend::Graph& graph) {
  std::uint64_t bytes = 0;
  for (const backend::Weight& w : graph.weights) bytes += graph::weight_bytes(w);
  return bytes;
}

std::uint64_t kv_bytes_per_token(const backend::Graph& graph, backend::KvFormat kv) {
  std::uint64_t bytes = 0;
  for (const backend::StateGroup& g : graph.states) {
    bytes += static_cast<std::uint64_t>(g.layers) * static_cast<std::uint64_t>(g.heads) *
             (graph::kv_row_bytes(kv.k, g.k_width) + graph::kv_row_bytes(kv.v, g.v_width));
  }
  return bytes;
}

}  // namespace llminfer::profile
