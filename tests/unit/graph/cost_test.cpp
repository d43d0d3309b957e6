#include "graph/cost.h"

#include "catch.h"
#include "tiny_graph.h"

using namespace llminfer;
using graph::BatchShape;
using graph::OpCost;

namespace {

template <class T>
std::size_t index_of(const backend::Graph& graph, int nth = 0) {
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (std::holds_alternative<T>(graph.ops[i]) && nth-- == 0) return i;
  }
  throw std::logic_error("no such op");
}

BatchShape batch(std::vector<graph::SequenceShape> sequences, int outputs) {
  BatchShape b;
  b.sequences = std::move(sequences);
  b.outputs = outputs;
  return b;
}

/// Pairs of (query, visible key) and distinct keys by looking at each.
std::pair<std::uint64_t, std::uint64_t> count_keys(graph::SequenceShape s, int window) {
  std::uint64_t pairs = 0;
  std::uint64_t distinct = 0;
  for (int key = 0; key < s.start + s.count; ++key) {
    bool seen = false;
    for (int q = s.start; q < s.start + s.count; ++q) {
      const bool visible = key <= q && (window == 0 || key > q - window);
      pairs += visible;
      seen = seen || visible;
    }
    distinct += seen;
  }
  return {pairs, distinct};
}

}  // namespace

TEST_CASE("a matmul reads its weight once for any number of rows") {
  const backend::Graph graph = tests::tiny_graph();
  const std::size_t q = index_of<backend::MatMul>(graph);
  const OpCost one = cost_of(graph, q, batch({{0, 1}}, 1));
  const OpCost ten = cost_of(graph, q, batch({{0, 4}, {3, 6}}, 1));
  CHECK(one.weight_bytes == 64 * 64 / 32 * 34);
  CHECK(ten.weight_bytes == one.weight_bytes);
  CHECK(one.flops == 2 * 64 * 64);
  CHECK(ten.flops == 10 * one.flops);
  CHECK(ten.activation_bytes == 10 * (64 + 64) * 4);
}

TEST_CASE("rows that nobody wants cost nothing in the head") {
  const backend::Graph graph = tests::tiny_graph();
  const std::size_t head = graph.ops.size() - 1;
  const OpCost none = cost_of(graph, head, batch({{0, 8}}, 0));
  CHECK(none.bytes() == 0);
  CHECK(none.flops == 0);
  CHECK(cost_of(graph, head, batch({{0, 8}}, 1)).weight_bytes == 100 * 64 / 32 * 34);
}

TEST_CASE("attention counts the keys that queries see") {
  for (const int window : {0, 1, 5, 16}) {
    const backend::Graph graph = tests::tiny_graph(window);
    const std::size_t attention = index_of<backend::PagedAttention>(graph);
    for (const graph::SequenceShape s : {graph::SequenceShape{0, 1}, {0, 9}, {7, 1}, {3, 20}, {30, 4}}) {
      const OpCost cost = cost_of(graph, attention, batch({s}, 0));
      const auto [pairs, distinct] = count_keys(s, window);
      CHECK(cost.kv_read_bytes == distinct * 2 * (16 * 2 + 16 * 2));
      CHECK(cost.flops == pairs * 4 * (2 * 16 + 2 * 16 + 4) + static_cast<std::uint64_t>(s.count) * 64);
    }
  }
}

TEST_CASE("cache formats and the embedding's distinct rows") {
  CHECK(graph::kv_row_bytes(KvType::f32, 64) == 256);
  CHECK(graph::kv_row_bytes(KvType::bf16, 64) == 128);
  CHECK(graph::kv_row_bytes(KvType::q8_0, 64) == 68);
  CHECK(graph::kv_row_bytes(KvType::q4_0, 80) == 54);
  const backend::Graph graph = tests::tiny_graph();
  BatchShape b = batch({{0, 8}}, 1);
  b.distinct_tokens = 3;
  CHECK(cost_of(graph, 0, b).weight_bytes == 3 * 68);
}

TEST_CASE("gathering reads only the rows it keeps, and totals add up") {
  const backend::Graph graph = tests::tiny_graph();
  const BatchShape b = batch({{0, 8}}, 2);
  const OpCost gather = cost_of(graph, index_of<backend::GatherRows>(graph), b);
  CHECK(gather.activation_bytes == 2 * 2 * 64 * 4);
  OpCost sum;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) sum += cost_of(graph, i, b);
  const OpCost total = cost_of(graph, b);
  CHECK(total.flops == sum.flops);
  CHECK(total.bytes() == sum.bytes());
  CHECK(total.kv_write_bytes == 8 * 2 * 64);
}
