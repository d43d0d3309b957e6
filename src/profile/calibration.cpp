#include "profile/calibration.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <tuple>

#include "profile/span_split.h"
#include "profile/step_runner.h"
#include "profile/synthetic.h"

namespace llminfer::profile {
namespace {

using Sequences = std::vector<graph::SequenceShape>;

/// A step of the calibration: a class of tokens for products and row ops, of (tokens, context) for attention.
struct Class {
  int sequences = 1;
  int start = 0;
  int count = 1;
  int rounds = 5;
  bool products = true;
  bool attention = true;
};

// Decode steps of growing batches, on weights that no cache keeps.
constexpr Class decode_classes[] = {{1, 31, 1, 9, true, false},  {2, 31, 1, 5, true, false},
                                    {4, 31, 1, 5, true, false},  {8, 31, 1, 5, true, false},
                                    {16, 31, 1, 5, true, false}, {32, 31, 1, 4, true, false}};
// Chunks of prompts, where arithmetic takes the time; and attention, of one token for each of several sequences: one
// alone is over too soon to be measured well.
constexpr Class other_classes[] = {{8, 127, 1, 4, false, true},  {8, 511, 1, 4, false, true},
                                   {4, 2047, 1, 4, false, true}, {1, 0, 128, 4, true, true},
                                   {1, 0, 512, 4, true, true},   {1, 1536, 512, 1, false, true}};
constexpr double decode_size = 6;  // weights, in times of the last cache: part of them may still lie there
constexpr double other_size = 2.5;

// Three widths of matrices (768, 1,280 and 3,328) and of heads that share a key three numbers: 1, 4 and 10. Multiples
// of 256, as formats want, and none of 1,024: rows of results that lie 4 KiB apart fall into the same sets of a cache,
// which real models' seldom do.
constexpr SyntheticShape shape = {768, 20, 20, 64, 3328, 8192, 4096, {5, 2}};

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
  double seconds() const noexcept {
    std::int64_t sum = 0;
    for (const backend::OpSpan& span : spans_) sum += span.end_ns - span.start_ns;
    return static_cast<double>(sum) * 1e-9;
  }

 private:
  std::vector<backend::OpSpan> spans_;
};

/// Kernels whose times are added up.
using Key = std::tuple<KernelFamily, WeightType, int>;  // family, type, width

/// Every type about equally often, the whole `size` times as large as the last cache, so that weights come from memory
/// as those of a real model do.
std::vector<WeightType> layers_of(const std::vector<WeightType>& types, double size, std::uint64_t cache_bytes) {
  const double kv_heads = (shape.kv_heads + shape.other_kv_heads[0] + shape.other_kv_heads[1]) / 3.0;
  const double elements =
      static_cast<double>(shape.width) *
      (2.0 * shape.heads * shape.head_width + 2.0 * kv_heads * shape.head_width + 3.0 * shape.feed_forward);
  const double wanted = size * static_cast<double>(std::max<std::uint64_t>(cache_bytes, std::uint64_t{16} << 20));
  std::vector<WeightType> layers;
  double bytes = 0;
  while (layers.size() < 3 * types.size() || (bytes < wanted && layers.size() < 64)) {
    const WeightType type = types[layers.size() % types.size()];
    layers.push_back(type);
    bytes += elements * describe(type).block_bytes / describe(type).block_size;
  }
  return layers;
}

/// What every op costs however small it is, and a step beside its ops: a decoder so small that nothing else counts.
void measure_overheads(const backend::Backend& device, Ceilings& ceilings) {
  SyntheticShape tiny{64, 2, 1, 32, 64, 64, 64, {}};
  const auto graph = synthetic_decoder(tiny, std::vector<WeightType>(16, WeightType::q8_0));
  StepRunner runner(device, graph, SyntheticWeights(graph), {1, 1, 1}, 32);
  Spans spans(2 * graph->ops.size());
  double ops = 1, step = 1;
  for (int i = 0; i < 30; ++i) {
    spans.clear();
    runner.run({{3, 1}}, &spans);
    if (spans.all().empty()) return;
    ops = std::min(ops, spans.seconds());
    step = std::min(step, std::max(0.0, runner.seconds() - spans.seconds()));
  }
  ceilings.op_overhead_s = ops / static_cast<double>(graph->ops.size());
  ceilings.step_overhead_s = step;
}

/// Mean without the slowest quarter. Not the best: work of any length meets the slower moments of a machine as well.
double usual(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  values.resize(values.size() - values.size() / 4);
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

class Calibration {
 public:
  /// `pages`: for each sequence beside those of the longest.
  Calibration(const backend::Backend& device, std::vector<WeightType> layers, const backend::Limits& limits,
              std::int32_t longest, std::int32_t pages, const Ceilings& ceilings)
      : model_(ceilings),
        graph_(synthetic_decoder(shape, layers)),
        runner_(device, graph_, SyntheticWeights(graph_), limits, longest, pages),
        costs_(*graph_),
        spans_(2 * graph_->ops.size()) {
    runner_.run({{0, std::min(16, limits.tokens)}}, nullptr);  // warms the threads up
  }

  void run(std::span<const Class> classes, std::vector<Efficiency>& found) {
    for (const Class& c : classes) measure(c, found);
  }

 private:
  /// Whether the op is of the class, and then its key.
  bool key_of(const Class& c, std::size_t op, const graph::BatchShape& batch, Key& key) const {
    const KernelClass kernel = class_of(*graph_, graph_->ops[op], batch, costs_.cost(op));
    key = {kernel.family, kernel.type, static_cast<int>(std::lround(kernel.width))};
    if (kernel.family == KernelFamily::attention) return c.attention;
    return c.products && static_cast<std::int64_t>(kernel.tokens) == batch.tokens();  // not the head after a prompt
  }

  void measure(const Class& c, std::vector<Efficiency>& found) {
    std::map<Key, std::vector<double>> seconds;
    std::map<Key, double> roofs;
    if (c.count == 1) runner_.run(sequences_of(c), nullptr);  // warms what the class before did not touch
    for (int round = 0; round < c.rounds; ++round) {
      spans_.clear();
      const graph::BatchShape batch = runner_.run(sequences_of(c), &spans_);
      if (round == 0) roofs = start(c, batch);
      for (const auto& [key, sum] : sums(c, batch)) seconds[key].push_back(sum);
    }
    for (auto& [key, rounds] : seconds) {
      const double time = usual(std::move(rounds));
      const double roof = roofs[key];
      if (roof <= 0 || time <= 0) continue;
      Efficiency e;
      std::tie(e.family, e.type, e.width) = key;
      const bool attention = e.family == KernelFamily::attention;
      e.tokens = attention ? c.count : c.sequences * c.count;
      e.context = attention ? c.start : 0;
      e.share = std::min(roof / time, 100.0);
      found.push_back(e);
    }
  }

  std::map<Key, double> start(const Class& c, const graph::BatchShape& batch) {
    costs_.fill(*graph_, batch, model_);
    std::map<Key, double> out;
    Key key;
    for (std::size_t i = 0; i < graph_->ops.size(); ++i) {
      if (!key_of(c, i, batch, key)) continue;
      out[key] += CostModel::basis(class_of(*graph_, graph_->ops[i], batch, costs_.cost(i)), costs_.roof_time(i));
    }
    return out;
  }

  /// Of the last step. The products' spans may cover row ops as well: their time is divided.
  std::map<Key, double> sums(const Class& c, const graph::BatchShape& batch) {
    std::map<Key, double> out;
    Key key;
    for (const backend::OpSpan& span : spans_.all()) {
      const double time =
          static_cast<double>(span.end_ns - span.start_ns) * 1e-9 - model_.op_overhead() * span.op_count;
      costs_.split(span, [&](std::size_t op, double share) {
        if (key_of(c, op, batch, key)) out[key] += std::max(0.0, time) * share;
      });
    }
    return out;
  }

  const CostModel model_;
  const std::shared_ptr<const backend::Graph> graph_;
  StepRunner runner_;
  StepCosts costs_;
  Spans spans_;
};

std::vector<Efficiency> measure(const backend::Backend& device, const std::vector<WeightType>& types,
                                const Ceilings& ceilings) {
  const std::uint64_t cache = CostModel(ceilings).cache_bytes();
  std::vector<Efficiency> out;
  // One after the other: each takes much memory.
  Calibration(device, layers_of(types, decode_size, cache), {32, 32, 32}, 32, 1, ceilings).run(decode_classes, out);
  Calibration(device, layers_of(types, other_size, cache), {512, 8, 8}, 2048, 16, ceilings).run(other_classes, out);
  return out;
}

bool has(const Ceilings& ceilings, WeightType type) {
  return std::any_of(ceilings.efficiencies.begin(), ceilings.efficiencies.end(),
                     [&](const Efficiency& e) { return e.family == KernelFamily::matmul && e.type == type; });
}

}  // namespace

std::vector<WeightType> missing_types(const Ceilings& ceilings, const std::vector<WeightType>& wanted) {
  std::vector<WeightType> out;
  for (const WeightType type : wanted) {
    const bool usable = describe(type).block_size > 0 && type != WeightType::as_stored;
    if (usable && !has(ceilings, type) && std::find(out.begin(), out.end(), type) == out.end()) out.push_back(type);
  }
  return out;
}

void calibrate(const backend::Backend& device, const std::vector<WeightType>& types, Ceilings& ceilings) {
  const std::vector<WeightType> missing = missing_types(ceilings, types);
  if (missing.empty()) return;
  if (ceilings.op_overhead_s <= 0) measure_overheads(device, ceilings);
  const std::vector<Efficiency> found = measure(device, missing, ceilings);
  const bool first = ceilings.efficiencies.empty();
  for (const Efficiency& e : found) {
    if (first || e.family == KernelFamily::matmul) ceilings.efficiencies.push_back(e);
  }
}

void calibrate_again(const backend::Backend& device, Ceilings& ceilings) {
  std::vector<WeightType> types;
  for (const Efficiency& e : ceilings.efficiencies) {
    const bool known = e.family != KernelFamily::matmul || std::find(types.begin(), types.end(), e.type) != types.end();
    if (!known) types.push_back(e.type);
  }
  if (types.empty()) return;
  measure_overheads(device, ceilings);
  ceilings.efficiencies = measure(device, types, ceilings);
}

}  // namespace llminfer::profile
