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
    if (out == graph_.logits) return false;
    for (std::size_t i = index + 1; i < graph_.ops.size(); ++i) {
      const backend::MatMul* product = fragments_product(i);
      if (product != nullptr && product->in == out) return true;
    }
    return false;
  }

  bool gates_next(std::size_t index) const {
    if (index + 2 >= graph_.ops.size()) return false;
    const backend::MatMul* a = fragments_product(index);
    const backend::MatMul* b = fragments_product(index + 1);
    const auto* gate = std::get_if<backend::GatedActivation>(&graph_.ops[index + 2]);
    if (a == nullptr || b == nullptr || gate == nullptr || a->in != b->in || a->out == b->out) return false;
    const bool theirs = (gate->gate == a->out && gate->up == b->out) || (gate->gate == b->out && gate->up == a->out);
    const bool alike = type_of(*a) == type_of(*b) && width(a->out) == width(b->out);
    return theirs && alike && only_read_next(a->out) && only_read_next(b->out);
  }

  bool before_product(std::size_t index) const {
    const backend::ValueId out = graph::io_of(graph_.ops[index]).out;
    if (out == backend::none || index + 1 >= graph_.ops.size()) return false;
    const backend::MatMul* product = fragments_product(index + 1);
    return product != nullptr && product->in == out;
  }

  bool adds_next(std::size_t index) const {
    const backend::MatMul* product = fragments_product(index);
    if (product == nullptr || index + 1 == graph_.ops.size()) return false;
    const auto* add = std::get_if<backend::Add>(&graph_.ops[index + 1]);
    if (add == nullptr || (add->a == product->out) == (add->b == product->out)) return false;
    return only_read_next(product->out);
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
  const backend::MatMul* fragments_product(std::size_t index) const {
    const auto* product = std::get_if<backend::MatMul>(&graph_.ops[index]);
    if (product == nullptr) return nullptr;
    return weights_.weights[static_cast<std::size_t>(product->weight)].form == WeightForm::fragments ? product
                                                                                                     : nullptr;
  }
  bool whole_norm(std::size_t index) const {
    const auto* norm = std::get_if<backend::RmsNorm>(&graph_.ops[index]);
    return norm != nullptr && norm->group == width(norm->in) && norm->group % 32 == 0;
  }
  bool only_read_next(backend::ValueId id) const {
    return readers(id) == 1 && id != graph_.hidden && id != graph_.logits;
  }
  WeightType type_of(const backend::MatMul& op) const {
    return graph_.weights[static_cast<std::size_t>(op.weight)].type;
  }
  int readers(backend::ValueId id) const { return readers_[static_cast<std::size_t>(id)]; }
  std::int32_t width(backend::ValueId id) const { return graph_.values[static_cast<std::size_t>(id)].width; }

  const backend::Graph& graph_;
  const WeightPlan& weights_;
  std::vector<int> readers_;
};

}  // namespace

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
