#include "profile/calibration.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "profile/span_split.h"
#include "profile/step_runner.h"
#include "profile/synthetic.h"

namespace llminfer::profile {
namespace {

using Sequences = std::vector<graph::SequenceShape>;

/// A step of the calibration: classes of tokens for products and row ops, of (tokens, context) for attention.
struct Class {
  int sequences = 1;
  int start = 0;
  int count = 1;
  int rounds = 3;
};

// Decode steps of growing batches, long contexts, and chunks of prompts.
constexpr Class classes[] = {{1, 127, 1, 8},  {2, 127, 1, 5},  {4, 127, 1, 5},   {8, 127, 1, 4},
                             {16, 127, 1, 4}, {32, 127, 1, 3}, {1, 511, 1, 3},   {1, 2047, 1, 3},
                             {1, 0, 128, 3},  {1, 0, 512, 2},  {1, 1536, 512, 1}};

Sequences sequences_of(const Class& c) { return Sequences(static_cast<std::size_t>(c.sequences), {c.start, c.count}); }

/// Keeps the spans of one step.
class Spans final : public backend::ProfileSink {
 public:
  explicit Spans(std::size_t most) { spans_.reserve(most); }
  void on_span(const backend::OpSpan& span) noexcept override {
    if (spans_.size() < spans_.capacity()) spans_.push_back(span);
  }
  void clear() noexcept { spans_.clear(); }
  const std::vector<backend::OpSpan>& all() const noexcept { return spans_; }

 private:
  std::vector<backend::OpSpan> spans_;
};

/// Times of a family or type: what ops took, and what their roofs allow.
struct Sum {
  double seconds = 0;
  double roof = 0;
};
using Key = std::pair<KernelFamily, WeightType>;

Key key_of(const backend::Graph& graph, const backend::Op& op) {
  const KernelFamily family = family_of(op);
  return {family, family == KernelFamily::matmul ? weight_type_of(graph, op) : WeightType::as_stored};
}

/// Sums of one step by family and type. The products' spans may cover row ops as well: their time is divided.
std::map<Key, Sum> sums_of(const backend::Graph& graph, const std::vector<backend::OpSpan>& spans,
                           const StepCosts& costs, double op_overhead) {
  std::map<Key, Sum> out;
  for (const backend::OpSpan& span : spans) {
    const double seconds = static_cast<double>(span.end_ns - span.start_ns) * 1e-9 - op_overhead * span.op_count;
    costs.split(span, [&](std::size_t op, double share) {
      out[key_of(graph, graph.ops[op])].seconds += std::max(0.0, seconds) * share;
    });
  }
  for (std::size_t i = 0; i < graph.ops.size(); ++i) out[key_of(graph, graph.ops[i])].roof += costs.roof(i);
  return out;
}

/// Every type about equally often, the whole several times as large as the last cache, so that weights come from memory
/// as those of a real model do.
std::vector<WeightType> layers_of(const std::vector<WeightType>& types, const SyntheticShape& shape,
                                  std::uint64_t cache_bytes) {
  const double elements =
      static_cast<double>(shape.width) *
      (2.0 * shape.heads * shape.head_width + 2.0 * shape.kv_heads * shape.head_width + 3.0 * shape.feed_forward);
  const double wanted = 2.5 * static_cast<double>(std::max<std::uint64_t>(cache_bytes, std::uint64_t{16} << 20));
  std::vector<WeightType> layers;
  double bytes = 0;
  while (layers.size() < 2 * types.size() || (bytes < wanted && layers.size() < 64)) {
    const WeightType type = types[layers.size() % types.size()];
    layers.push_back(type);
    bytes += elements * describe(type).block_bytes / describe(type).block_size;
  }
  return layers;
}

/// Seconds that an op costs however small it is: a decoder so small that nothing else counts.
double small_op_seconds(const backend::Backend& device) {
  SyntheticShape tiny{64, 2, 1, 32, 64, 64, 64};
  const auto graph = synthetic_decoder(tiny, std::vector<WeightType>(16, WeightType::q8_0));
  StepRunner runner(device, graph, SyntheticWeights(graph), {1, 1, 1}, 32);
  Spans spans(2 * graph->ops.size());
  double best = 1;
  for (int i = 0; i < 30; ++i) {
    spans.clear();
    runner.run({{3, 1}}, &spans);
    if (spans.all().empty()) return 0;
    best = std::min(best, static_cast<double>(spans.all().back().end_ns - spans.all().front().start_ns) * 1e-9);
  }
  return best / static_cast<double>(graph->ops.size());
}

void measure(StepRunner& runner, const CostModel& model, double op_overhead, bool others, Ceilings& out) {
  const backend::Graph& graph = runner.graph();
  StepCosts costs(graph);
  Spans spans(2 * graph.ops.size());
  for (const Class& c : classes) {
    std::map<Key, Sum> best;
    for (int round = 0; round < c.rounds; ++round) {
      spans.clear();
      costs.fill(graph, runner.run(sequences_of(c), &spans), model);
      for (const auto& [key, sum] : sums_of(graph, spans.all(), costs, op_overhead)) {
        const auto [at, fresh] = best.try_emplace(key, sum);
        if (!fresh) at->second.seconds = std::min(at->second.seconds, sum.seconds);
      }
    }
    const int tokens = c.sequences * c.count;
    for (const auto& [key, sum] : best) {
      if (sum.roof <= 0 || sum.seconds <= 0) continue;
      const double share = std::min(sum.roof / sum.seconds, 100.0);
      const bool attention = key.first == KernelFamily::attention;
      if (key.first != KernelFamily::matmul && !others) continue;
      if (attention && c.sequences > 1) continue;  // the class is one sequence's
      if (!attention && c.start > 127) continue;   // measured with the short contexts
      out.efficiencies.push_back({key.first, key.second, attention ? c.count : tokens, attention ? c.start : 0, share});
    }
  }
}

bool has(const Ceilings& ceilings, KernelFamily family, WeightType type) {
  return std::any_of(ceilings.efficiencies.begin(), ceilings.efficiencies.end(),
                     [&](const Efficiency& e) { return e.family == family && e.type == type; });
}

}  // namespace

std::vector<WeightType> missing_types(const Ceilings& ceilings, const std::vector<WeightType>& wanted) {
  std::vector<WeightType> out;
  for (const WeightType type : wanted) {
    const bool usable = describe(type).block_size > 0 && type != WeightType::as_stored;
    if (usable && !has(ceilings, KernelFamily::matmul, type) && std::find(out.begin(), out.end(), type) == out.end()) {
      out.push_back(type);
    }
  }
  return out;
}

void calibrate(const backend::Backend& device, const std::vector<WeightType>& types, Ceilings& ceilings) {
  const std::vector<WeightType> missing = missing_types(ceilings, types);
  if (missing.empty()) return;
  if (ceilings.op_overhead_s <= 0) ceilings.op_overhead_s = small_op_seconds(device);
  const CostModel model(ceilings);
  const SyntheticShape shape;
  const auto graph = synthetic_decoder(shape, layers_of(missing, shape, model.cache_bytes()));
  StepRunner runner(device, graph, SyntheticWeights(graph), {512, 32, 32}, 2048);
  runner.run({{0, 16}}, nullptr);  // warms the threads up
  measure(runner, model, ceilings.op_overhead_s, !has(ceilings, KernelFamily::rows, WeightType::as_stored), ceilings);
}

}  // namespace llminfer::profile
