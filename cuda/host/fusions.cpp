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
    const backend::Op& op = graph_.ops[index];
    const auto* norm = std::get_if<backend::RmsNorm>(&op);
    const bool whole_rows = norm != nullptr && norm->group == width(norm->in);
    if (!whole_rows && !std::holds_alternative<backend::GatedActivation>(op)) return false;
    const backend::ValueId out = graph::io_of(op).out;
    if (out == graph_.hidden || out == graph_.logits || readers(out) == 0) return false;
    int found = 0;
    for (std::size_t i = index + 1; i < graph_.ops.size() && found < readers(out); ++i, ++found) {
      const backend::MatMul* product = fragments_product(i);
      if (product == nullptr || product->in != out) return false;
    }
    return found == readers(out);
  }

  bool adds_next(std::size_t index) const {
    const backend::MatMul* product = fragments_product(index);
    if (product == nullptr || index + 1 == graph_.ops.size()) return false;
    const auto* add = std::get_if<backend::Add>(&graph_.ops[index + 1]);
    if (add == nullptr || (add->a == product->out) == (add->b == product->out)) return false;
    return readers(product->out) == 1 && product->out != graph_.hidden && product->out != graph_.logits;
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
    f.adds_next.push_back(finder.adds_next(i));
    f.rotates_into_cache.push_back(finder.rotates_into_cache(i));
  }
  return f;
}

}  // namespace llminfer::cuda
