#include "profile/analysis.h"

#include <algorithm>
#include <functional>
#include <map>

#include "graph/op_io.h"
#include "profile/step_forecast.h"

namespace llminfer::profile {
namespace {

double seconds(double ns) { return ns * 1e-9; }
double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

/// A summary being added up: by which roof its ops are bound is the side with more roof time.
struct Adder {
  OpSummary summary{};
  double compute_s = 0;

  void add(const PhaseTotals& totals, std::size_t op) {
    const graph::OpCost& cost = totals.op_cost[op];
    summary.seconds += seconds(totals.op_ns[op]);
    summary.weight_bytes += cost.weight_bytes;
    summary.activation_bytes += cost.activation_bytes;
    summary.kv_bytes += cost.kv_read_bytes + cost.kv_write_bytes;
    summary.flops += cost.flops;
    summary.roof_seconds += totals.op_roof_s[op];
    summary.expected_seconds += totals.op_expected_s[op];
    if (totals.op_compute_s[op] > totals.op_memory_s[op]) compute_s += totals.op_roof_s[op];
  }
  OpSummary take(std::string name) {
    summary.name = std::move(name);
    summary.compute_bound = compute_s > summary.roof_seconds / 2;
    return std::move(summary);
  }
};

std::vector<OpSummary> summed(const PhaseTotals& totals, std::size_t ops,
                              const std::function<std::string(std::size_t)>& name_of, bool by_time) {
  std::vector<std::pair<std::string, Adder>> found;
  for (std::size_t i = 0; i < ops; ++i) {
    const std::string name = name_of(i);
    if (name.empty()) continue;
    auto at = std::find_if(found.begin(), found.end(), [&](const auto& f) { return f.first == name; });
    if (at == found.end()) at = found.insert(found.end(), {name, {}});
    at->second.add(totals, i);
  }
  std::vector<OpSummary> out;
  out.reserve(found.size());
  for (auto& [name, adder] : found) out.push_back(adder.take(name));
  if (by_time) {
    std::stable_sort(out.begin(), out.end(),
                     [](const OpSummary& a, const OpSummary& b) { return a.seconds > b.seconds; });
  }
  return out;
}

std::string layer_of(const backend::Graph& graph, std::size_t op) {
  for (const backend::OpGroup& g : graph.groups) {
    const auto i = static_cast<std::int32_t>(op);
    if (i < g.first || i >= g.first + g.count) continue;
    if (g.layer != backend::none) return std::to_string(g.layer);
    return graph::name_of(g.kind);
  }
  return {};
}

std::string type_of(const backend::Graph& graph, std::size_t op) {
  const WeightType type = weight_type_of(graph, graph.ops[op]);
  return type == WeightType::as_stored ? std::string() : std::string(describe(type).name);
}

PhaseReport phase_report(PhaseKind kind, const PhaseTotals& totals, const backend::Graph& graph) {
  PhaseReport out;
  out.kind = kind;
  out.steps = totals.steps;
  out.tokens = totals.tokens;
  out.sequences = static_cast<double>(totals.sequences) / static_cast<double>(std::max<std::uint64_t>(1, totals.steps));
  out.context = static_cast<double>(totals.context) / static_cast<double>(std::max<std::uint64_t>(1, totals.sequences));
  out.step_seconds = seconds(totals.step_ns);
  out.barrier_seconds = seconds(totals.wait_ns);
  out.dispatch_seconds = std::max(0.0, seconds(totals.step_ns - totals.span_ns));
  out.sampling_seconds = seconds(totals.after_ns[static_cast<std::size_t>(Part::sampling)]);
  out.scheduling_seconds = seconds(totals.after_ns[static_cast<std::size_t>(Part::scheduling)]);
  out.outside_seconds = seconds(totals.after_ns[static_cast<std::size_t>(Part::outside)]);
  out.seconds = out.step_seconds + out.sampling_seconds + out.scheduling_seconds + out.outside_seconds;
  const std::size_t n = graph.ops.size();
  Adder all;
  for (std::size_t i = 0; i < n; ++i) all.add(totals, i);
  out.all = all.take("all");
  out.by_op = summed(
      totals, n, [&](std::size_t i) { return std::string(graph::name_of(graph.ops[i])); }, true);
  out.by_type = summed(
      totals, n, [&](std::size_t i) { return type_of(graph, i); }, true);
  out.by_layer = summed(
      totals, n, [&](std::size_t i) { return layer_of(graph, i); }, false);
  return out;
}

TimeParts parts_of(const Totals& totals) {
  TimeParts out;
  const auto part = [&](Part p) { return seconds(totals.part_ns[static_cast<std::size_t>(p)]); };
  out.wall = seconds(totals.wall_ns);
  out.sampling = part(Part::sampling);
  out.scheduling = part(Part::scheduling);
  out.outside = part(Part::outside);
  out.idle = part(Part::idle);
  for (const PhaseTotals& phase : totals.phases) {
    out.ops += seconds(phase.span_ns - phase.wait_ns);
    out.barriers += seconds(phase.wait_ns);
  }
  out.dispatch = part(Part::step) - out.ops - out.barriers;  // the running step's ops too: they are not known yet
  return out;
}

MemoryMap memory_of(const Totals& totals, const Recorder& recorder, const Subject& subject) {
  MemoryMap out;
  std::map<WeightType, std::uint64_t> sums;
  for (const backend::Weight& w : recorder.graph().weights) sums[w.type] += graph::weight_bytes(w);
  out.weights.assign(sums.begin(), sums.end());
  std::stable_sort(out.weights.begin(), out.weights.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  out.activations = subject.activations;
  out.kv_used = std::min(subject.kv_bytes, static_cast<std::uint64_t>(totals.cached_tokens) *
                                               kv_bytes_per_token(recorder.graph(), recorder.kv()));
  out.kv_free = subject.kv_bytes - out.kv_used;
  return out;
}

}  // namespace

ProfileReport report_of(const Totals& totals, const Recorder& recorder, const Subject& subject) {
  ProfileReport out;
  const CostModel& model = recorder.model();
  out.model = subject.model;
  out.device = subject.device;
  out.threads = subject.threads;
  out.warning = warning(subject.ceilings);
  out.memory_rate = model.memory_rate();
  out.cache_rate = model.cache_rate();
  out.int8_rate = model.quantized_rate();
  out.f32_rate = model.f32_rate();
  out.k = recorder.kv().k;
  out.v = recorder.kv().v;
  out.time = parts_of(totals);
  for (int i = 0; i < phase_kinds; ++i) {
    const PhaseTotals& phase = totals.phases[static_cast<std::size_t>(i)];
    if (phase.steps == 0) continue;
    out.phases.push_back(phase_report(static_cast<PhaseKind>(i), phase, recorder.graph()));
    judge(out.phases.back(), phase, recorder, subject);
  }
  std::stable_sort(out.phases.begin(), out.phases.end(),
                   [](const PhaseReport& a, const PhaseReport& b) { return a.seconds > b.seconds; });
  out.memory = memory_of(totals, recorder, subject);
  advise(out, recorder, subject);
  return out;
}

}  // namespace llminfer::profile
