#include "host/fusions.h"

#include "graph/op_io.h"

namespace llminfer::cuda {
namespace {

class Finder {
 public:
  Finder(const backend::Graph& graph, const WeightPlan& weights) : graph_(graph), weights_(weights) {
    readers_.resize(graph.values.size());
    for (const backend::Op& op : graph.ops) {
      for (const backend::ValueId id : graph::io_of(op).in) {
        if (id != backend::none) ++readers_[static_cast<std::size_t>(id)];
      }
    }
  }

  bool into_fragments(std::size_t index) const {
    const bool gathers = std::holds_alternative<backend::GatherRows>(graph_.ops[index]);
    if (!gathers && !whole_norm(index)) return false;
    const backend::ValueId out = graph::io_of(graph_.ops[index]).out;
    if (out == graph_.logits || (gathers && out == graph_.hidden) || readers(out) == 0) return false;
    // Other rows may be gathered first.
    std::size_t i = index + 1;
    while (i < graph_.ops.size() && std::holds_alternative<backend::GatherRows>(graph_.ops[i])) ++i;
    int found = 0;
    for (; i < graph_.ops.size() && found < readers(out); ++i, ++found) {
      const backend::MatMul* product = fragments_product(i);
      if (product == nullptr || product->in != out) return false;
    }
    return found == readers(out);
  }

  bool also_into_fragments(std::size_t index) const {
    if (!whole_norm(index) || into_fragments(index)) return false;
    const backend::ValueId out = graph::io_of(graph_.ops[index]).out;
    for (std::size_t i = index + 1; i < graph_.ops.size() && out != graph_.logits; ++i) {
      if (reads_fragments(i, out)) return true;
    }
    return false;
  }

  bool gates_next(std::size_t index) const {
    if (index + 2 >= graph_.ops.size()) return false;
    const auto* gate = std::get_if<backend::GatedActivation>(&graph_.ops[index + 2]);
    if (gate == nullptr || graph_.ops[index].index() != graph_.ops[index + 1].index()) return false;
    const graph::OpIo a = graph::io_of(graph_.ops[index]), b = graph::io_of(graph_.ops[index + 1]);
    if (!has_fragments(index) || !has_fragments(index + 1) || a.in != b.in || a.out == b.out) return false;
    const bool theirs = (gate->gate == a.out && gate->up == b.out) || (gate->gate == b.out && gate->up == a.out);
    return theirs && same_shape(a.weights[0], b.weights[0]) && only_read_next(a.out) && only_read_next(b.out);
  }

  bool before_product(std::size_t index) const {
    const backend::ValueId out = graph::io_of(graph_.ops[index]).out;
    return out != backend::none && index + 1 < graph_.ops.size() && reads_fragments(index + 1, out);
  }

  bool adds_next(std::size_t index) const {
    const bool combines = std::holds_alternative<backend::MoeCombine>(graph_.ops[index]);
    if ((!combines && fragments_product(index) == nullptr) || index + 1 == graph_.ops.size()) return false;
    const backend::ValueId out = graph::io_of(graph_.ops[index]).out;
    const auto* add = std::get_if<backend::Add>(&graph_.ops[index + 1]);
    return add != nullptr && (add->a == out) != (add->b == out) && only_read_next(out);
  }

  bool rotates_into_cache(std::size_t index) const {
    if (index + 2 >= graph_.ops.size()) return false;
    const auto* q = std::get_if<backend::Rope>(&graph_.ops[index]);
    const auto* k = std::get_if<backend::Rope>(&graph_.ops[index + 1]);
    const auto* write = std::get_if<backend::KvWrite>(&graph_.ops[index + 2]);
    if (q == nullptr || k == nullptr || write == nullptr || write->v == backend::none) return false;
    const bool alike = q->table == k->table && q->head_width == k->head_width && q->pairing == k->pairing;
    const backend::StateGroup& group = graph_.states[static_cast<std::size_t>(write->slot.group)];
    const bool all_heads = group.heads == k->heads && group.k_width == k->head_width;
    // The launch reads what the three ops read, while it writes the queries.
    const bool apart = k->in != q->out && write->v != q->out && write->v != k->out && q->in != k->out;
    return alike && all_heads && apart && write->k == k->out && readers(k->out) == 1 && q->out != k->out;
  }

 private:
  /// A product, of experts or not, with a weight that is repacked.
  bool has_fragments(std::size_t index) const {
    const backend::Op& op = graph_.ops[index];
    if (!std::holds_alternative<backend::MatMul>(op) && !std::holds_alternative<backend::MoeMatMul>(op)) return false;
    return weights_.weights[static_cast<std::size_t>(graph::io_of(op).weights[0])].form == WeightForm::fragments;
  }
  bool reads_fragments(std::size_t index, backend::ValueId in) const {
    return has_fragments(index) && graph::io_of(graph_.ops[index]).in[0] == in;
  }
  const backend::MatMul* fragments_product(std::size_t index) const {
    return has_fragments(index) ? std::get_if<backend::MatMul>(&graph_.ops[index]) : nullptr;
  }
  bool whole_norm(std::size_t index) const {
    const auto* norm = std::get_if<backend::RmsNorm>(&graph_.ops[index]);
    return norm != nullptr && norm->group == width(norm->in) && norm->group % 32 == 0;
  }
  bool only_read_next(backend::ValueId id) const {
    return readers(id) == 1 && id != graph_.hidden && id != graph_.logits;
  }
  bool same_shape(backend::WeightId a, backend::WeightId b) const {
    const backend::Weight &x = graph_.weights[static_cast<std::size_t>(a)],
                          &y = graph_.weights[static_cast<std::size_t>(b)];
    return x.type == y.type && x.rows == y.rows && x.columns == y.columns && x.experts == y.experts;
  }
  int readers(backend::ValueId id) const { return readers_[static_cast<std::size_t>(id)]; }
  std::int32_t width(backend::ValueId id) const { return graph_.values[static_cast<std::size_t>(id)].width; }

  const backend::Graph& graph_;
  const WeightPlan& weights_;
  std::vector<int> readers_;
};

}  // namespace

namespace {

/// Whether one launch combines the results of experts at op `c`, adds and, as the next op, makes a norm's fragments.
bool folds_norm(const backend::Graph& graph, const Fusions& fusions, std::size_t c) {
  if (c + 2 >= graph.ops.size()) return false;
  const auto* norm = std::get_if<backend::RmsNorm>(&graph.ops[c + 2]);
  return norm != nullptr && norm->in == std::get<backend::Add>(graph.ops[c + 1]).out &&
         (fusions.into_fragments[c + 2] || fusions.also_into_fragments[c + 2]);
}

/// Says, behind the last op of such a launch, that somebody reads a value.
void read_again(backend::Graph& graph, backend::ValueId id) {
  graph.values.push_back({graph.values[static_cast<std::size_t>(id)].rows, 1});
  graph.ops.push_back(backend::Scale{id, static_cast<backend::ValueId>(graph.values.size() - 1), 1.0F});
}

}  // namespace

backend::Graph with_lives_of_launches(const backend::Graph& graph, const Fusions& fusions) {
  backend::Graph longer = graph;
  longer.ops.clear();
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    longer.ops.push_back(graph.ops[i]);
    for (std::size_t back = 1; back <= 2 && back <= i; ++back) {
      const std::size_t c = i - back;
      const auto* combine = std::get_if<backend::MoeCombine>(&graph.ops[c]);
      if (combine == nullptr || !fusions.adds_next[c] || back != (folds_norm(graph, fusions, c) ? 2U : 1U)) continue;
      // Blocks that are late still read what the others' results must not lie upon.
      const auto& add = std::get<backend::Add>(graph.ops[c + 1]);
      read_again(longer, combine->in);
      read_again(longer, combine->route);
      read_again(longer, add.a == combine->out ? add.b : add.a);
    }
  }
  return longer;
}

Fusions find_fusions(const backend::Graph& graph, const WeightPlan& weights) {
  const Finder finder(graph, weights);
  Fusions f;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    f.into_fragments.push_back(finder.into_fragments(i));
    f.also_into_fragments.push_back(finder.also_into_fragments(i));
    f.adds_next.push_back(finder.adds_next(i));
    f.gates_next.push_back(finder.gates_next(i));
    f.before_product.push_back(finder.before_product(i));
    f.rotates_into_cache.push_back(finder.rotates_into_cache(i));
  }
  return f;
}

}  // namespace llminfer::cuda
