#include "host/fusions.h"

#include "graph/op_io.h"
#include "kernels/matmul_quant.h"
#include "kernels/rope_kv.h"

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

  bool adds_normed(std::size_t index) const {
    if (fragments_product(index) == nullptr || index + 2 >= graph_.ops.size() || !whole_norm(index + 1)) return false;
    const graph::OpIo product = graph::io_of(graph_.ops[index]), norm = graph::io_of(graph_.ops[index + 1]);
    const auto* add = std::get_if<backend::Add>(&graph_.ops[index + 2]);
    return norm.in[0] == product.out && only_read_next(product.out) && only_read_next(norm.out) && add != nullptr &&
           (add->a == norm.out) != (add->b == norm.out);
  }

  std::int32_t slices(std::size_t index) const {
    if (fragments_product(index) == nullptr) return 0;
    const backend::ValueId out = graph::io_of(graph_.ops[index]).out;
    if (out == graph_.hidden || out == graph_.logits || readers(out) > matmul_max_targets) return 0;
    for (int n = 1; n <= readers(out); ++n) {
      const auto* slice = at<backend::Slice>(index + static_cast<std::size_t>(n));
      if (slice == nullptr || slice->in != out || slice->offset % 64 != 0) return 0;
    }
    return readers(out);
  }

  bool gates_slices(std::size_t index) const {
    const auto* gate = at<backend::GatedActivation>(index + 3);
    if (gate == nullptr || slices(index) != 2) return false;
    const backend::ValueId a = graph::io_of(graph_.ops[index + 1]).out, b = graph::io_of(graph_.ops[index + 2]).out;
    const bool theirs = (gate->gate == a && gate->up == b) || (gate->gate == b && gate->up == a);
    return theirs && only_read_next(a) && only_read_next(b);
  }

  bool combines_next(std::size_t index) const {
    const auto* product = at<backend::MoeMatMul>(index);
    const auto* combine = at<backend::MoeCombine>(index + 1);
    return product != nullptr && combine != nullptr && has_fragments(index) && combine->in == product->out &&
           combine->route == product->route && only_read_next(product->out);
  }

  bool routes_next(std::size_t index) const {
    const auto* product = at<backend::MatMul>(index);
    const auto* route = at<backend::MoeRoute>(index + 1);
    if (product == nullptr || route == nullptr || route->in != product->out) return false;
    const backend::Weight& w = graph_.weights[static_cast<std::size_t>(product->weight)];
    return w.type == WeightType::f32 && w.columns % 4 == 0 && route->experts <= most_experts_sorted;
  }

  backend::ValueId before_gathered_product(std::size_t index) const {
    if (at<backend::PagedAttention>(index) == nullptr) return backend::none;
    backend::ValueId read = backend::none;
    std::size_t i = index + 1;
    for (const backend::GatherRows* op = nullptr; (op = at<backend::GatherRows>(i)) != nullptr; ++i) {
      if (op->in == graph::io_of(graph_.ops[index]).out) read = op->out;
    }
    const bool product = read != backend::none && i < graph_.ops.size() && reads_fragments(i, read);
    return product ? read : backend::none;
  }

  std::int32_t rotates_into_cache(std::size_t index) const {
    const auto *query_norm = at<backend::RmsNorm>(index), *key_norm = at<backend::RmsNorm>(index + 1);
    const std::size_t norms = query_norm != nullptr ? 2 : 0;
    const auto *q = at<backend::Rope>(index + norms), *k = at<backend::Rope>(index + norms + 1);
    const auto* write = at<backend::KvWrite>(index + norms + 2);
    if (q == nullptr || k == nullptr || write == nullptr || write->v == backend::none) return 0;
    if (norms != 0) {
      const auto of_heads = [&](const backend::RmsNorm* norm, const backend::Rope& rope) {
        return norm != nullptr && norm->out == rope.in && norm->group == rope.head_width && only_read_next(norm->out);
      };
      if (!of_heads(query_norm, *q) || !of_heads(key_norm, *k) || query_norm->eps != key_norm->eps) return 0;
    }
    const bool alike = q->table == k->table && q->head_width == k->head_width && q->pairing == k->pairing;
    const backend::StateGroup& group = graph_.states[static_cast<std::size_t>(write->slot.group)];
    const bool all_heads = group.heads == k->heads && group.k_width == k->head_width;
    const bool fits = q->head_width <= rope_kv_max_width;
    // Keys are not stored as a value.
    const bool once = write->k == k->out && only_read_next(k->out) && k->in != q->out && write->v != k->out;
    return alike && all_heads && fits && once ? static_cast<std::int32_t>(norms) + 3 : 0;
  }

  std::int32_t makes_heads(std::size_t index) const {
    if (fragments_product(index) == nullptr) return 0;
    const bool cut = slices(index) == 3;
    const std::size_t products = cut ? 4 : 3, end = index + products;
    const std::int32_t more = end < graph_.ops.size() ? rotates_into_cache(end) : 0;
    if (more == 0) return 0;
    if (!cut) {
      const backend::ValueId in = graph::io_of(graph_.ops[index]).in[0];
      for (std::size_t n = 1; n < 3; ++n) {
        if (fragments_product(index + n) == nullptr || !reads_fragments(index + n, in)) return 0;
      }
    }
    const std::size_t rope = end + static_cast<std::size_t>(more) - 3;
    const auto* write = at<backend::KvWrite>(rope + 2);
    const backend::ValueId wanted[] = {graph::io_of(graph_.ops[more == 3 ? rope : end]).in[0],
                                       graph::io_of(graph_.ops[more == 3 ? rope + 1 : end + 1]).in[0], write->v};
    for (const backend::ValueId id : wanted) {
      int found = 0;
      for (std::size_t n = cut ? 1 : 0; n < products; ++n) found += graph::io_of(graph_.ops[index + n]).out == id;
      if (found != 1) return 0;
    }
    return static_cast<std::int32_t>(products) + more;
  }

  std::vector<backend::ValueId> gathered_from() const {
    std::vector<backend::ValueId> from(graph_.values.size());
    for (std::size_t id = 0; id < from.size(); ++id) from[id] = static_cast<backend::ValueId>(id);
    for (const backend::Op& op : graph_.ops) {
      const auto* gather = std::get_if<backend::GatherRows>(&op);
      if (gather == nullptr || gather->out == graph_.hidden || gather->out == graph_.logits) continue;
      from[static_cast<std::size_t>(gather->out)] = gather->in;
    }
    return from;
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
  template <class OpType>
  const OpType* at(std::size_t index) const {
    return index < graph_.ops.size() ? std::get_if<OpType>(&graph_.ops[index]) : nullptr;
  }
  bool whole_norm(std::size_t index) const {
    const auto* norm = at<backend::RmsNorm>(index);
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

Fusions find_fusions(const backend::Graph& graph, const WeightPlan& weights) {
  const Finder finder(graph, weights);
  Fusions f;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    f.into_fragments.push_back(finder.into_fragments(i));
    f.also_into_fragments.push_back(finder.also_into_fragments(i));
    f.adds_next.push_back(finder.adds_next(i));
    f.adds_normed.push_back(finder.adds_normed(i));
    f.gates_next.push_back(finder.gates_next(i));
    f.slices.push_back(finder.slices(i));
    f.gates_slices.push_back(finder.gates_slices(i));
    f.combines_next.push_back(finder.combines_next(i));
    f.routes_next.push_back(finder.routes_next(i));
    f.before_product.push_back(finder.before_product(i));
    f.before_gathered_product.push_back(finder.before_gathered_product(i));
    f.rotates_into_cache.push_back(finder.rotates_into_cache(i));
    f.makes_heads.push_back(finder.makes_heads(i));
  }
  f.gathered_from = finder.gathered_from();
  return f;
}

}  // namespace llminfer::cuda
