#include "host/launch_lives.h"

#include <algorithm>

#include "graph/op_io.h"

namespace llminfer::cuda {
namespace {

/// Whether op `n` is a norm that becomes fragments, of what the addition before it makes.
bool is_norm_of_sum(const backend::Graph& graph, const Fusions& fusions, std::size_t n) {
  if (n >= graph.ops.size() || (!fusions.into_fragments[n] && !fusions.also_into_fragments[n])) return false;
  const auto* norm = std::get_if<backend::RmsNorm>(&graph.ops[n]);
  const auto* add = std::get_if<backend::Add>(&graph.ops[n - 1]);
  return norm != nullptr && add != nullptr && norm->in == add->out;
}

/// The most ops from `i` on that are one launch.
std::size_t ops_of_launch(const backend::Graph& graph, const Fusions& fusions, std::size_t i) {
  const auto with_norm = [&](std::size_t n) { return n + (is_norm_of_sum(graph, fusions, i + n) ? 1 : 0); };
  if (fusions.makes_heads[i] > 0) return static_cast<std::size_t>(fusions.makes_heads[i]);
  if (fusions.rotates_into_cache[i] > 0) return static_cast<std::size_t>(fusions.rotates_into_cache[i]);
  if (fusions.combines_next[i]) return fusions.adds_next[i + 1] ? with_norm(3) : 2;
  if (fusions.adds_next[i]) return with_norm(2);
  if (fusions.adds_normed[i]) return with_norm(3);
  if (fusions.routes_next[i]) return 2;
  if (fusions.gates_next[i]) return 3;
  if (fusions.gates_slices[i]) return 4;
  return 1 + static_cast<std::size_t>(fusions.slices[i]);
}

/// The graph that is made, op by op.
class Lives {
 public:
  explicit Lives(const backend::Graph& graph) : longer_(graph) { longer_.ops.clear(); }

  void add(const backend::Op& op) { longer_.ops.push_back(op); }
  /// Says that somebody reads a value behind the last op.
  void read(backend::ValueId id) {
    longer_.values.push_back({longer_.values[static_cast<std::size_t>(id)].rows, 1});
    longer_.ops.push_back(backend::Scale{id, static_cast<backend::ValueId>(longer_.values.size() - 1), 1.0F});
  }
  backend::Graph take() { return std::move(longer_); }

 private:
  backend::Graph longer_;
};

}  // namespace

backend::Graph with_lives_of_launches(const backend::Graph& graph, const Fusions& fusions) {
  Lives lives(graph);
  std::vector<backend::ValueId> held;  // until the end of the launch
  std::size_t first = 0, end = 0;      // of it
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    lives.add(graph.ops[i]);
    const graph::OpIo io = graph::io_of(graph.ops[i]);
    if (i >= end) first = i;
    end = std::max(end, i + ops_of_launch(graph, fusions, i));
    for (const backend::ValueId id : io.in) {
      if (id == backend::none) continue;
      if (end - first > 1) held.push_back(id);
      // A gathered value may be the one that it is gathered from.
      const backend::ValueId from = fusions.gathered_from[static_cast<std::size_t>(id)];
      if (from != id) held.push_back(from);
    }
    if (i + 1 < end) {
      if (io.out != backend::none) held.push_back(io.out);
      continue;
    }
    std::sort(held.begin(), held.end());
    held.erase(std::unique(held.begin(), held.end()), held.end());
    for (const backend::ValueId id : held) lives.read(id);
    held.clear();
  }
  return lives.take();
}

}  // namespace llminfer::cuda
