#include "profile/cost_model.h"

#include <algorithm>
#include <cmath>

#include "graph/op_io.h"

namespace llminfer::profile {
namespace {

using backend::none;

bool is_half(WeightType type) noexcept { return type == WeightType::f16 || type == WeightType::bf16; }

/// Of the matrix of a product; none for other ops.
backend::WeightId weight_of(const backend::Op& op) noexcept {
  if (const auto* m = std::get_if<backend::MatMul>(&op)) return m->weight;
  if (const auto* m = std::get_if<backend::MoeMatMul>(&op)) return m->weight;
  return none;
}

/// Rows that a product multiplies with each weight it reads.
double product_rows(const backend::Graph& graph, const backend::Op& op, const graph::BatchShape& batch,
                    const graph::OpCost& cost) {
  if (const auto* moe = std::get_if<backend::MoeMatMul>(&op)) {
    const backend::Weight& w = graph.weights[static_cast<std::size_t>(moe->weight)];
    const double one =
        static_cast<double>(graph::weight_bytes(w)) / static_cast<double>(std::max<std::int64_t>(1, w.experts));
    const double hit = std::max(1.0, static_cast<double>(cost.weight_bytes) / std::max(1.0, one));
    return std::max(1.0, static_cast<double>(batch.tokens() * moe->used) / hit);
  }
  const graph::OpIo io = graph::io_of(op);
  const backend::ValueId id = io.out != none ? io.out : io.in[0];
  const bool outputs = id != none && graph.values[static_cast<std::size_t>(id)].rows == backend::Rows::outputs;
  return outputs ? batch.outputs : static_cast<double>(batch.tokens());
}

/// Linear in log x between neighbours, constant outside.
double between(double x, double x0, double y0, double x1, double y1) {
  if (x <= x0 || x1 <= x0) return y0;
  if (x >= x1) return y1;
  const double t = std::log(x / x0) / std::log(x1 / x0);
  return y0 + t * (y1 - y0);
}

/// Of shares whose times are linear in x: a key costs its loads and then as much again for each head that shares it.
double between_times(double x, double x0, double y0, double x1, double y1) {
  if (x <= x0 || x1 <= x0 || y0 <= 0 || y1 <= 0) return y0;
  if (x >= x1) return y1;
  const double t = (x - x0) / (x1 - x0);
  return 1 / ((1 - t) / y0 + t / y1);
}

}  // namespace

KernelFamily family_of(const backend::Op& op) noexcept {
  if (std::holds_alternative<backend::MatMul>(op) || std::holds_alternative<backend::MoeMatMul>(op)) {
    return KernelFamily::matmul;
  }
  return std::holds_alternative<backend::PagedAttention>(op) ? KernelFamily::attention : KernelFamily::rows;
}

WeightType weight_type_of(const backend::Graph& graph, const backend::Op& op) noexcept {
  const auto* embed = std::get_if<backend::Embed>(&op);
  const backend::WeightId id = embed != nullptr ? embed->weight : weight_of(op);
  return id == none ? WeightType::as_stored : graph.weights[static_cast<std::size_t>(id)].type;
}

KernelClass class_of(const backend::Graph& graph, const backend::Op& op, const graph::BatchShape& batch,
                     const graph::OpCost& cost) {
  KernelClass out;
  out.family = family_of(op);
  out.tokens = product_rows(graph, op, batch, cost);
  if (out.family == KernelFamily::matmul) {
    out.type = weight_type_of(graph, op);
    out.width = static_cast<double>(graph.weights[static_cast<std::size_t>(weight_of(op))].columns);
  }
  const auto* attention = std::get_if<backend::PagedAttention>(&op);
  if (attention == nullptr || batch.sequences.empty()) return out;
  for (const graph::SequenceShape& s : batch.sequences) out.context += s.start;
  const auto n = static_cast<double>(batch.sequences.size());
  out.tokens = static_cast<double>(batch.tokens()) / n;
  out.context /= n;
  out.width =
      static_cast<double>(attention->heads) / graph.states[static_cast<std::size_t>(attention->slot.group)].heads;
  return out;
}

double ShareCache::get(const CostModel& model, const KernelClass& kernel, bool by_compute) noexcept {
  for (std::size_t i = 0; i < size_; ++i) {
    if (entries_[i].kernel == kernel && entries_[i].by_compute == by_compute) return entries_[i].share;
  }
  const double share = model.share(kernel, by_compute);
  if (size_ < entries_.size()) entries_[size_++] = {kernel, by_compute, share};
  return share;
}

CostModel::CostModel(const Ceilings& ceilings, int threads) {
  const ThreadCeilings* at = &ceilings.all();
  for (const ThreadCeilings& t : ceilings.at) {
    if (t.threads == threads) at = &t;
  }
  threads_ = at->threads;
  memory_ = std::max(1.0, at->read.best);
  cache_ = memory_;
  for (const CacheCeiling& c : at->caches) {
    if (c.level < 2 || c.read.best <= 0) continue;
    cache_ = std::max(memory_, c.read.best);
    cache_bytes_ = c.bytes;
  }
  f32_ = std::max(1.0, at->f32.best > 0 ? at->f32.best : at->bf16.best);
  quantized_ = at->int8.best > 0 ? at->int8.best : f32_;
  half_ = attention_ = f32_;
  attention_bf16_ = at->bf16.best > 0 ? at->bf16.best : f32_;
  op_overhead_ = ceilings.op_overhead_s;
  step_overhead_ = ceilings.step_overhead_s;
  sample_ = ceilings.sample_s;
  efficiencies_ = ceilings.efficiencies;
  calibrated_ = !efficiencies_.empty();
}

CostModel::CostModel(const DeviceDescription& d) {
  memory_ = cache_ = d.bandwidth.value;
  cache_bytes_ = static_cast<std::uint64_t>(d.cache.value);
  described_ = true;
  quantized_ = d.rate(d.quantized).value;
  half_ = d.rate(d.half).value;
  attention_ = attention_bf16_ = d.rate(d.attention).value;
  f32_ = d.f32.value;
  memory_share_ = d.bandwidth_share.value;
  compute_share_ = d.compute_share.value;
  group_overhead_ = d.group_overhead.value;
  step_overhead_ = d.step_overhead.value;
  calibrated_ = true;
}

double CostModel::compute_rate(const backend::Graph& graph, const backend::Op& op,
                               backend::KvFormat kv) const noexcept {
  if (std::holds_alternative<backend::PagedAttention>(op)) {
    return kv.k == KvType::bf16 && kv.v == KvType::bf16 ? attention_bf16_ : attention_;
  }
  if (family_of(op) != KernelFamily::matmul) return f32_;
  const WeightType type = weight_type_of(graph, op);
  return type == WeightType::f32 ? f32_ : is_half(type) ? half_ : quantized_;
}

bool CostModel::resident(const backend::Graph& graph, const graph::BatchShape& batch) const {
  if (cache_bytes_ == 0 || described_) return false;
  std::uint64_t bytes = 0;
  for (const backend::Weight& w : graph.weights) bytes += graph::weight_bytes(w);
  for (const backend::StateGroup& g : graph.states) {
    const std::uint64_t row = graph::kv_row_bytes(batch.kv.k, g.k_width) + graph::kv_row_bytes(batch.kv.v, g.v_width);
    for (const graph::SequenceShape& s : batch.sequences) {
      bytes += static_cast<std::uint64_t>(s.start + s.count) * static_cast<std::uint64_t>(g.layers) *
               static_cast<std::uint64_t>(g.heads) * row;
    }
  }
  return bytes <= cache_bytes_ / 4 * 3;
}

RoofTime CostModel::roof(const backend::Graph& graph, std::size_t op, const graph::OpCost& cost, backend::KvFormat kv,
                         bool resident) const noexcept {
  const double far = static_cast<double>(cost.weight_bytes + cost.kv_read_bytes);
  const double near = static_cast<double>(cost.activation_bytes + cost.kv_write_bytes);
  RoofTime out;
  // The rate of a described device's cache is not known: what fits costs nothing.
  const bool free = described_ && near <= static_cast<double>(cache_bytes_);
  out.memory_s = far / (resident ? cache_ : memory_) + (free ? 0 : near / cache_);
  out.compute_s = static_cast<double>(cost.flops) / compute_rate(graph, graph.ops[op], kv);
  return out;
}

/// Among the entries of one width; 0 where there is none.
double CostModel::share_at(const KernelClass& kernel, int width) const noexcept {
  const bool attention = kernel.family == KernelFamily::attention;
  const auto distance = [&](const Efficiency& e) { return std::abs(std::log(kernel.tokens / std::max(1, e.tokens))); };
  const auto belongs = [&](const Efficiency& e) {
    return e.family == kernel.family && e.type == kernel.type && e.width == width;
  };
  double nearest = 1e9;
  for (const Efficiency& e : efficiencies_) {
    if (belongs(e)) nearest = std::min(nearest, distance(e));
  }
  // Neighbours in tokens; of attention the nearest class of tokens, then neighbours in context.
  const auto place = [&](const Efficiency& e) { return attention ? e.context : e.tokens; };
  const double at = attention ? kernel.context : kernel.tokens;
  const Efficiency *below = nullptr, *above = nullptr;
  for (const Efficiency& e : efficiencies_) {
    if (!belongs(e) || (attention && distance(e) > nearest + 1e-9)) continue;
    if (place(e) <= at && (below == nullptr || place(e) > place(*below))) below = &e;
    if (place(e) >= at && (above == nullptr || place(e) < place(*above))) above = &e;
  }
  if (below == nullptr) below = above;
  if (above == nullptr) above = below;
  if (below == nullptr) return 0;
  return between(at, std::max(1, place(*below)), below->share, std::max(1, place(*above)), above->share);
}

double CostModel::share(const KernelClass& kernel, bool by_compute) const noexcept {
  constexpr int far = 1 << 30;
  int below = -1, above = far;
  for (const Efficiency& e : efficiencies_) {
    if (e.family != kernel.family || e.type != kernel.type) continue;
    if (e.width <= kernel.width) below = std::max(below, e.width);
    if (e.width >= kernel.width) above = std::min(above, e.width);
  }
  if (below < 0) below = above;
  if (above == far) above = below;
  if (below < 0 || below == far) return by_compute ? compute_share_ : memory_share_;
  const double low = share_at(kernel, below), high = below == above ? low : share_at(kernel, above);
  if (kernel.family == KernelFamily::attention) return between_times(kernel.width, below, low, above, high);
  return between(kernel.width, std::max(1, below), low, std::max(1, above), high);
}

/// Attention is shared out by KV heads and ranges of 128 keys: how much longer the fullest thread takes than if all had
/// the same. Only where one token a sequence makes few of them.
double CostModel::unevenness(const backend::Graph& graph, const backend::Op& op,
                             const graph::BatchShape& batch) const noexcept {
  const auto* attention = std::get_if<backend::PagedAttention>(&op);
  if (attention == nullptr || batch.tokens() != static_cast<std::int64_t>(batch.sequences.size())) return 1;
  const backend::StateGroup& group = graph.states[static_cast<std::size_t>(attention->slot.group)];
  double tasks = 0;
  for (const graph::SequenceShape& s : batch.sequences) {
    const int keys = group.window > 0 ? std::min(group.window, s.start + 1) : s.start + 1;
    tasks += group.heads * std::ceil(keys / 128.0);
  }
  return tasks < threads_ ? 1 : std::ceil(tasks / threads_) * threads_ / tasks;
}

double CostModel::seconds(const backend::Graph& graph, std::size_t index, const graph::OpCost& cost,
                          const graph::BatchShape& batch, bool resident, ShareCache* cache) const {
  const backend::Op& op = graph.ops[index];
  const RoofTime time = roof(graph, index, cost, batch.kv, resident);
  if (time.seconds() <= 0) return 0;
  if (efficiencies_.empty()) {
    return op_overhead_ + std::max(time.memory_s / memory_share_, time.compute_s / compute_share_);
  }
  const KernelClass kernel = class_of(graph, op, batch, cost);
  const double part =
      cache != nullptr ? cache->get(*this, kernel, time.by_compute()) : share(kernel, time.by_compute());
  return op_overhead_ + basis(kernel, time) * unevenness(graph, op, batch) / std::max(1e-3, part);
}

double CostModel::step_overhead(const backend::Graph& graph) const noexcept {
  return step_overhead_ + group_overhead_ * static_cast<double>(graph.groups.size());
}

double CostModel::sample_seconds(const backend::Graph& graph) const noexcept {
  return sample_ * static_cast<double>(graph.vocabulary);
}

}  // namespace llminfer::profile
