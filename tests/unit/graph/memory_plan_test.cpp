#include "graph/memory_plan.h"

#include <limits>

#include "catch.h"
#include "graph/op_io.h"
#include "tiny_graph.h"

using namespace llminfer;

namespace {

struct Range {
  std::size_t first = std::numeric_limits<std::size_t>::max();
  std::size_t last = 0;
};

/// Lifetimes found by a plain scan, independent of the planner.
std::vector<Range> lifetimes(const backend::Graph& graph) {
  std::vector<Range> out(graph.values.size());
  const auto touch = [&](backend::ValueId id, std::size_t at) {
    if (id == backend::none) return;
    Range& r = out[static_cast<std::size_t>(id)];
    r.first = std::min(r.first, at);
    r.last = std::max(r.last, at);
  };
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const graph::OpIo io = graph::io_of(graph.ops[i]);
    touch(io.out, i);
    for (const backend::ValueId id : io.in) touch(id, i);
  }
  touch(graph.logits, graph.ops.size());
  touch(graph.hidden, graph.ops.size());
  return out;
}

}  // namespace

TEST_CASE("values alive at the same time never overlap, and the plan is smaller than the sum") {
  const backend::Graph graph = tests::tiny_graph();
  const backend::Limits limits{7, 3, 2};
  const graph::MemoryPlan plan = graph::plan_memory(graph, limits);
  const std::vector<Range> life = lifetimes(graph);
  std::uint64_t sum = 0;
  for (std::size_t a = 0; a < graph.values.size(); ++a) {
    const std::uint64_t a_end = plan.offsets[a] + graph::value_bytes(graph.values[a], limits);
    CHECK(plan.offsets[a] % 64 == 0);
    CHECK(a_end <= plan.total);
    sum += graph::value_bytes(graph.values[a], limits);
    for (std::size_t b = 0; b < a; ++b) {
      const bool together = life[a].first <= life[b].last && life[b].first <= life[a].last;
      if (!together) continue;
      const std::uint64_t b_end = plan.offsets[b] + graph::value_bytes(graph.values[b], limits);
      CHECK((a_end <= plan.offsets[b] || b_end <= plan.offsets[a]));
    }
  }
  CHECK(plan.total < sum);
}

TEST_CASE("sizes follow rows and width") {
  CHECK(graph::value_bytes({backend::Rows::tokens, 3}, {5, 1, 2}) == 64);
  CHECK(graph::value_bytes({backend::Rows::tokens, 16}, {5, 1, 2}) == 320);
  CHECK(graph::value_bytes({backend::Rows::outputs, 16}, {5, 1, 2}) == 128);
}
