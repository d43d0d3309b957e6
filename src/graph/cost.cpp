#include "graph/cost.h"

#include <algorithm>
#include <cmath>

#include "graph/op_io.h"

namespace llminfer::graph {
namespace {

using namespace backend;  // op structs

std::uint64_t u64(std::int64_t value) { return value < 0 ? 0 : static_cast<std::uint64_t>(value); }

std::uint64_t row_bytes(const Weight& w) {
  const WeightTypeInfo& info = describe(w.type);
  return info.block_size == 0 ? 0 : u64(w.columns) / info.block_size * info.block_bytes;
}

/// Computes the cost of one op; rows r is tokens or outputs as the op's values say.
class Coster {
 public:
  Coster(const Graph& graph, std::size_t index, const BatchShape& batch)
      : graph_(graph), index_(index), batch_(batch) {}

  OpCost run() const {
    const Op& op = graph_.ops[index_];
    OpCost cost = std::visit([this](const auto& o) { return special(o); }, op);
    const OpIo io = io_of(op);
    for (std::size_t i = 0; i < io.in.size(); ++i) {
      const bool again = std::find(io.in.begin(), io.in.begin() + i, io.in[i]) != io.in.begin() + i;
      if (io.in[i] != none && !again) cost.activation_bytes += value_bytes(io.in[i]);
    }
    if (io.out != none) cost.activation_bytes += value_bytes(io.out);
    return cost;
  }

 private:
  std::uint64_t rows(ValueId id) const {
    const bool tokens = graph_.values[static_cast<std::size_t>(id)].rows == Rows::tokens;
    return tokens ? u64(batch_.tokens()) : u64(batch_.outputs);
  }
  std::uint64_t width(ValueId id) const { return u64(graph_.values[static_cast<std::size_t>(id)].width); }
  std::uint64_t elements(ValueId id) const { return rows(id) * width(id); }
  std::uint64_t value_bytes(ValueId id) const { return elements(id) * sizeof(float); }
  const Weight& weight(WeightId id) const { return graph_.weights[static_cast<std::size_t>(id)]; }
  std::uint64_t optional_bytes(WeightId id) const { return id == none ? 0 : weight_bytes(weight(id)); }

  /// A weight is only read when there is a row to multiply.
  static OpCost dense(std::uint64_t bytes, std::uint64_t flops, std::uint64_t row_count) {
    OpCost c;
    if (row_count == 0) return c;
    c.weight_bytes = bytes;
    c.flops = flops;
    return c;
  }

  OpCost special(const Embed& o) const {
    OpCost c;
    const std::uint64_t n = u64(batch_.tokens());
    const std::uint64_t distinct = batch_.distinct_tokens > 0 ? u64(batch_.distinct_tokens) : n;
    c.weight_bytes = std::min(distinct, n) * row_bytes(weight(o.weight));
    c.flops = o.scale == 1.0F ? 0 : elements(o.out);
    return c;
  }
  OpCost special(
      const RmsNorm& o) const {  // square+add, scale, weight per value; mean, eps, root, reciprocal per group
    const std::uint64_t groups = elements(o.in) / std::max<std::uint64_t>(u64(o.group), 1);
    return dense(weight_bytes(weight(o.weight)), 4 * elements(o.in) + 4 * groups, rows(o.in));
  }
  OpCost special(const LayerNorm& o) const {
    const std::uint64_t each = o.bias == none ? 6 : 7;  // mean, difference, square+add, scale, weight, bias
    return dense(weight_bytes(weight(o.weight)) + optional_bytes(o.bias), each * elements(o.in) + 5 * rows(o.in),
                 rows(o.in));
  }
  OpCost special(const MatMul& o) const {
    const std::uint64_t flops = 2 * rows(o.in) * width(o.in) * width(o.out) + (o.bias == none ? 0 : elements(o.out));
    return dense(weight_bytes(weight(o.weight)) + optional_bytes(o.bias), flops, rows(o.in));
  }
  OpCost special(const Rope& o) const {  // 4 multiplications and 2 additions a pair
    OpCost c;
    const std::uint64_t pairs = graph_.rope_tables[static_cast<std::size_t>(o.table)].inverse_frequency.size();
    c.flops = rows(o.in) * u64(o.heads) * pairs * 6;
    return c;
  }
  OpCost special(const KvWrite& o) const {
    OpCost c;
    const StateGroup& g = graph_.states[static_cast<std::size_t>(o.slot.group)];
    c.kv_write_bytes =
        rows(o.k) * u64(g.heads) * (kv_row_bytes(batch_.kv.k, g.k_width) + kv_row_bytes(batch_.kv.v, g.v_width));
    return c;
  }
  OpCost special(const PagedAttention& o) const {
    const StateGroup& g = graph_.states[static_cast<std::size_t>(o.slot.group)];
    const std::uint64_t row = kv_row_bytes(batch_.kv.k, g.k_width) + kv_row_bytes(batch_.kv.v, g.v_width);
    OpCost c;
    std::uint64_t pairs = 0;
    for (const SequenceShape& s : batch_.sequences) {
      const VisibleKeys seen = visible_keys(s, g.window);
      c.kv_read_bytes += seen.distinct * u64(g.heads) * row;
      pairs += seen.pairs;
      if (o.mode == AttentionMode::full && s.count > 1) {  // and the keys after its own
        pairs += u64(std::int64_t{s.count} * (s.count - 1) / 2);
      }
    }
    // Per query, head and key: dot products with K and V, scale, subtract maximum, exponential, sum; the cap adds
    // three.
    const std::uint64_t per_pair = 2 * u64(g.k_width) + 2 * u64(g.v_width) + 4 + (o.cap > 0 ? 3 : 0);
    c.flops = pairs * u64(o.heads) * per_pair + elements(o.out);  // the last division by the sum
    if (o.sinks != none && batch_.tokens() > 0) {
      c.weight_bytes = weight_bytes(weight(o.sinks));
      c.flops += rows(o.q) * u64(o.heads) * 3;
    }
    return c;
  }
  OpCost special(const GatedActivation& o) const {
    static constexpr std::uint64_t per_element[] = {5, 10, 9};
    OpCost c;
    c.flops = elements(o.out) * per_element[static_cast<std::size_t>(o.kind)];
    return c;
  }
  OpCost special(const Add& o) const { return simple(elements(o.out)); }
  OpCost special(const Scale& o) const { return simple(elements(o.out)); }
  OpCost special(const Softcap& o) const { return simple(3 * elements(o.out)); }
  OpCost special(const Slice& o) const {  // reads only the columns it keeps
    OpCost c;
    c.activation_bytes -= value_bytes(o.in) - value_bytes(o.out);
    return c;
  }
  OpCost special(const GatherRows& o) const {
    OpCost c;
    c.activation_bytes -= value_bytes(o.in) - value_bytes(o.out);
    return c;
  }
  static OpCost simple(std::uint64_t flops) {
    OpCost c;
    c.flops = flops;
    return c;
  }
  /// Softmax takes four operations a value (difference, exponential, sum, quotient), sigmoid three; choosing by
  /// comparison is free.
  OpCost special(const MoeRoute& o) const {
    const std::uint64_t all = u64(o.experts), used = u64(o.used);
    const bool selected = o.gating == Gating::softmax_selected;
    std::uint64_t per_row = selected ? 4 * used : o.gating == Gating::sigmoid ? 3 * all : 4 * all;
    if (o.selection_bias != none) per_row += all;
    if (o.normalize && !selected) per_row += 2 * used;
    if (o.scale != 1.0F) per_row += used;
    return dense(optional_bytes(o.selection_bias), rows(o.in) * per_row, rows(o.in));
  }
  OpCost special(const MoeMatMul& o) const {
    const Weight& w = weight(o.weight);
    const std::uint64_t hit = experts_hit(w, o, rows(o.in));
    OpCost c;
    c.activation_bytes -= value_bytes(o.route) / 2;  // reads the ids alone
    c.weight_bytes = hit * u64(w.rows) * row_bytes(w);
    if (o.bias != none) c.weight_bytes += hit * u64(w.rows) * sizeof(float);
    c.flops = rows(o.in) * u64(o.used) * u64(w.rows) * (2 * u64(w.columns) + (o.bias == none ? 0 : 1));
    return c;
  }
  OpCost special(const MoeCombine& o) const {
    OpCost c = simple(2 * elements(o.in));
    c.activation_bytes -= value_bytes(o.route) / 2;  // reads the weights alone
    return c;
  }

  std::uint64_t experts_hit(const Weight& w, const MoeMatMul& o, std::uint64_t n) const {
    if (n == 0) return 0;
    const std::size_t layer = moe_layer(o.route);
    if (layer < batch_.experts_hit.size()) return u64(batch_.experts_hit[layer]);
    return expected_experts_hit(w.experts, o.used, n);
  }
  /// Number of the MoE layer whose route value this is, counted over the graph.
  std::size_t moe_layer(ValueId route) const {
    std::size_t layer = 0;
    for (const Op& op : graph_.ops) {
      const MoeRoute* r = std::get_if<MoeRoute>(&op);
      if (r == nullptr) continue;
      if (r->out == route) break;
      ++layer;
    }
    return layer;
  }

  const Graph& graph_;
  std::size_t index_;
  const BatchShape& batch_;
};

}  // namespace

OpCost& OpCost::operator+=(const OpCost& other) noexcept {
  weight_bytes += other.weight_bytes;
  activation_bytes += other.activation_bytes;
  kv_read_bytes += other.kv_read_bytes;
  kv_write_bytes += other.kv_write_bytes;
  flops += other.flops;
  return *this;
}

VisibleKeys visible_keys(const SequenceShape& s, std::int64_t window) noexcept {
  const std::int64_t start = s.start;
  const std::int64_t count = s.count;
  const std::int64_t end = start + count;
  if (count <= 0) return {};
  if (window <= 0) return {u64(end), u64(count * start + count * (count + 1) / 2)};
  const std::int64_t first = std::max<std::int64_t>(0, start - window + 1);
  // Queries below position window - 1 see all before them, the others `window` keys.
  const std::int64_t growing = std::clamp<std::int64_t>(window - 1 - start, 0, count);
  const std::int64_t pairs = growing * start + growing * (growing + 1) / 2 + (count - growing) * window;
  return {u64(end - first), u64(pairs)};
}

std::uint64_t expected_experts_hit(std::int64_t experts, std::int32_t used, std::uint64_t rows) noexcept {
  const double all = static_cast<double>(experts);
  const double missed = std::pow(1.0 - used / all, static_cast<double>(rows));
  return static_cast<std::uint64_t>(std::lround(all * (1.0 - missed)));
}

std::uint64_t kv_row_bytes(KvType type, std::int32_t width) noexcept {
  const std::uint64_t n = u64(width);
  switch (type) {
    case KvType::f32:
      return 4 * n;
    case KvType::automatic:
    case KvType::f16:
    case KvType::bf16:
      return 2 * n;
    case KvType::q8_0:
      return (n + 31) / 32 * 34;
    case KvType::q4_0:
      return (n + 31) / 32 * 18;
  }
  return 0;
}

std::uint64_t weight_bytes(const Weight& weight) noexcept {
  return u64(weight.experts) * u64(weight.rows) * row_bytes(weight);
}

OpCost cost_of(const Graph& graph, std::size_t index, const BatchShape& batch) {
  return Coster(graph, index, batch).run();
}

OpCost cost_of(const Graph& graph, const BatchShape& batch) {
  OpCost total;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) total += cost_of(graph, i, batch);
  return total;
}

}  // namespace llminfer::graph
