#include "graph/batch_cost.h"

#include <algorithm>

namespace llminfer::graph {
namespace {

using backend::Graph;
using backend::none;
using backend::Op;
using backend::Rows;

OpCost plus(const OpCost& a, const OpCost& b, std::uint64_t factor) noexcept {
  return {a.weight_bytes + factor * b.weight_bytes, a.activation_bytes + factor * b.activation_bytes,
          a.kv_read_bytes + factor * b.kv_read_bytes, a.kv_write_bytes + factor * b.kv_write_bytes,
          a.flops + factor * b.flops};
}
// Unsigned, so that a difference below zero comes right again in a sum.
OpCost minus(const OpCost& a, const OpCost& b) noexcept { return plus(a, b, ~std::uint64_t{0}); }

bool equal(const OpCost& a, const OpCost& b) noexcept {
  return a.weight_bytes == b.weight_bytes && a.activation_bytes == b.activation_bytes &&
         a.kv_read_bytes == b.kv_read_bytes && a.kv_write_bytes == b.kv_write_bytes && a.flops == b.flops;
}

/// Asks cost_of about one op and takes its answers apart.
class Probe {
 public:
  Probe(const Graph& graph, std::size_t op, backend::KvFormat kv) : graph_(graph), op_(op), kv_(kv) {
    for (const Op& o : graph.ops) moe_layers_ += std::holds_alternative<backend::MoeRoute>(o) ? 1 : 0;
  }

  BatchCost::Form run(bool experts_by_output) const {
    using T = BatchCost::Term;
    BatchCost::Form form{};
    const OpCost one = ask({{0, 1}}, 0, 1, 1);
    const OpCost two = ask({{0, 1}, {0, 1}}, 0, 1, 1);
    form[T::pair] = minus(ask({{0, 2}}, 0, 1, 1), two);  // the second query sees the first key too
    form[T::key] = minus(minus(ask({{1, 1}}, 0, 1, 1), one), form[T::pair]);
    form[T::token] = minus(minus(minus(two, one), form[T::key]), form[T::pair]);
    form[T::distinct_token] = minus(ask({{0, 1}, {0, 1}}, 0, 2, 1), two);
    const OpCost row = ask({{0, 1}}, 1, 1, 1);
    form[T::output] = minus(ask({{0, 1}}, 2, 1, 1), row);
    form[T::expert] = minus(ask({{0, 1}}, 1, 1, 2), row);
    form[T::any_output] = minus(minus(row, one), form[T::output]);
    form[T::any_token] = one;
    for (const T t : {T::token, T::distinct_token, T::key, T::pair}) {
      form[T::any_token] = minus(form[T::any_token], form[t]);
    }
    OpCost& fixed = form[experts_by_output ? T::any_output : T::any_token];
    fixed = minus(fixed, form[T::expert]);
    return form;
  }

 private:
  OpCost ask(std::vector<SequenceShape> sequences, std::int32_t outputs, std::int32_t distinct,
             std::int32_t experts) const {
    BatchShape batch;
    batch.sequences = std::move(sequences);
    batch.outputs = outputs;
    batch.distinct_tokens = distinct;
    batch.experts_hit.assign(moe_layers_, experts);
    batch.kv = kv_;
    return cost_of(graph_, op_, batch);
  }

  const Graph& graph_;
  std::size_t op_;
  backend::KvFormat kv_;
  std::size_t moe_layers_ = 0;
};

/// Type of the op's weight; as_stored where it has none.
WeightType weight_type(const Graph& graph, const Op& op) {
  return std::visit(
      [&](const auto& o) {
        if constexpr (requires { o.weight; }) {
          if (o.weight != none) return graph.weights[static_cast<std::size_t>(o.weight)].type;
        }
        return WeightType::as_stored;
      },
      op);
}

BatchCost::Kind kind_of(const Graph& graph, std::size_t index, backend::KvFormat kv) {
  const Op& op = graph.ops[index];
  BatchCost::Kind kind;
  kind.op = index;
  kind.count = 1;
  if (const auto* attention = std::get_if<backend::PagedAttention>(&op)) {
    kind.group = static_cast<std::size_t>(attention->slot.group);
  }
  if (const auto* experts = std::get_if<backend::MoeMatMul>(&op)) {
    kind.experts = graph.weights[static_cast<std::size_t>(experts->weight)].experts;
    kind.experts_used = experts->used;
    kind.expert_rows = graph.values[static_cast<std::size_t>(experts->in)].rows;
  }
  kind.form = Probe(graph, index, kv).run(kind.expert_rows == Rows::outputs);
  return kind;
}

bool same(const Graph& graph, const BatchCost::Kind& a, const BatchCost::Kind& b) {
  return graph.ops[a.op].index() == graph.ops[b.op].index() &&
         weight_type(graph, graph.ops[a.op]) == weight_type(graph, graph.ops[b.op]) && a.group == b.group &&
         a.experts == b.experts && a.experts_used == b.experts_used && a.expert_rows == b.expert_rows &&
         std::equal(a.form.begin(), a.form.end(), b.form.begin(), equal);
}

}  // namespace

BatchTotals::BatchTotals(const Graph& graph) : keys_(graph.states.size()) {
  for (const backend::StateGroup& group : graph.states) windows_.push_back(group.window);
}

void BatchTotals::clear() noexcept {
  tokens = outputs = distinct_tokens = 0;
  std::fill(keys_.begin(), keys_.end(), VisibleKeys{});
}

void BatchTotals::add(const SequenceShape& sequence) noexcept {
  tokens += static_cast<std::uint64_t>(sequence.count);
  for (std::size_t g = 0; g < windows_.size(); ++g) {
    const VisibleKeys seen = visible_keys(sequence, windows_[g]);
    keys_[g].distinct += seen.distinct;
    keys_[g].pairs += seen.pairs;
  }
}

BatchCost::BatchCost(const Graph& graph, backend::KvFormat kv) {
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    Kind kind = kind_of(graph, i, kv);
    const auto twin =
        std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& other) { return same(graph, kind, other); });
    if (twin != kinds_.end()) {
      ++twin->count;
    } else {
      kinds_.push_back(kind);
    }
  }
}

OpCost BatchCost::cost(const Kind& kind, const BatchTotals& totals) noexcept {
  const std::uint64_t rows = kind.expert_rows == Rows::tokens ? totals.tokens : totals.outputs;
  const std::uint64_t hit =
      kind.experts > 0 && rows > 0 ? expected_experts_hit(kind.experts, kind.experts_used, rows) : 0;
  const std::uint64_t distinct =
      totals.distinct_tokens > 0 ? std::min(totals.distinct_tokens, totals.tokens) : totals.tokens;
  const bool keyed = totals.tokens > 0 && kind.group < totals.groups();
  const VisibleKeys keys = keyed ? totals.keys(kind.group) : VisibleKeys{};
  const std::array<std::uint64_t, Term::terms> amounts = {totals.tokens > 0 ? 1U : 0U,
                                                          totals.outputs > 0 ? 1U : 0U,
                                                          totals.tokens,
                                                          totals.outputs,
                                                          distinct,
                                                          keys.distinct,
                                                          keys.pairs,
                                                          hit};
  OpCost sum;
  for (std::size_t t = 0; t < Term::terms; ++t) sum = plus(sum, kind.form[t], amounts[t]);
  return sum;
}

OpCost BatchCost::total(const BatchTotals& totals) const noexcept {
  OpCost sum;
  for (const Kind& kind : kinds_) sum = plus(sum, cost(kind, totals), kind.count);
  return sum;
}

}  // namespace llminfer::graph
