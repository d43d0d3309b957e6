#include "graph/batch_cost.h"

#include <cstdint>

#include "catch.h"
#include "tiny_graph.h"

using namespace llminfer;
using graph::BatchCost;
using graph::BatchShape;
using graph::BatchTotals;
using graph::OpCost;

namespace {

/// Two layers of experts with biases, the second behind the gathering of output rows; attention with sinks and a cap.
backend::Graph expert_graph() {
  graph::GraphBuilder b;
  const auto embedding = b.weight(tests::matrix_weight("embedding", 64, 100));
  b.group(backend::GroupKind::embed);
  auto x = b.embed(embedding, 2.0F);
  for (int layer = 0; layer < 2; ++layer) {
    b.group(backend::GroupKind::qkv, layer);
    const auto h = b.layer_norm(x, b.weight(tests::vector_weight("norm", 64)), backend::none, 1e-5F);
    const auto q = b.matmul(h, b.weight(tests::matrix_weight("q", 64, 64, WeightType::f16)));
    const auto kv = b.matmul(h, b.weight(tests::matrix_weight("kv", 64, 64)), b.weight(tests::vector_weight("b", 64)));
    const auto slot = b.state(layer == 0 ? 8 : 0, 2, 16, 16);
    b.kv_write(b.slice(kv, 0, 32), b.slice(kv, 32, 32), slot);
    b.group(backend::GroupKind::attention, layer);
    backend::PagedAttention attention;
    attention.q = q;
    attention.slot = slot;
    attention.heads = 4;
    attention.cap = 30.0F;
    attention.sinks = b.weight(tests::vector_weight("sinks", 4));
    auto a = b.attention(attention);
    b.group(backend::GroupKind::ffn, layer);
    if (layer == 1) {
      x = b.gather_rows(x);
      a = b.gather_rows(a);
    }
    x = b.add(x, a);
    backend::MoeRoute route;
    route.in = b.matmul(x, b.weight(tests::matrix_weight("router", 64, 8)));
    route.experts = 8;
    route.used = 2;
    const auto chosen = b.moe_route(route);
    backend::Weight up = tests::matrix_weight("up", 64, 64);
    up.experts = 8;
    backend::Weight bias = tests::vector_weight("up_bias", 64);
    bias.rows = 8;
    const auto y = b.moe_matmul(x, chosen, 2, b.weight(up), b.weight(bias));
    x = b.add(x, b.moe_combine(y, chosen, 2));
  }
  b.group(backend::GroupKind::head);
  return b.finish(b.softcap(b.matmul(x, embedding), 20.0F), x, 100, 512);
}

/// Small numbers in a fixed order.
class Numbers {
 public:
  std::int32_t below(std::int32_t n) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::int32_t>((state_ >> 33) % static_cast<std::uint64_t>(n));
  }

 private:
  std::uint64_t state_ = 42;
};

BatchShape random_batch(Numbers& numbers) {
  BatchShape batch;
  const int sequences = numbers.below(6);
  for (int i = 0; i < sequences; ++i) {
    const bool decode = numbers.below(2) == 0;
    batch.sequences.push_back({numbers.below(300), decode ? 1 : 1 + numbers.below(100)});
  }
  if (sequences > 0) batch.outputs = numbers.below(sequences + 1);
  if (numbers.below(3) == 0) batch.distinct_tokens = 1 + numbers.below(20);
  batch.kv = {KvType::q8_0, numbers.below(2) == 0 ? KvType::f16 : KvType::q4_0};
  return batch;
}

void check_equal(const OpCost& got, const OpCost& want) {
  CHECK(got.weight_bytes == want.weight_bytes);
  CHECK(got.activation_bytes == want.activation_bytes);
  CHECK(got.kv_read_bytes == want.kv_read_bytes);
  CHECK(got.kv_write_bytes == want.kv_write_bytes);
  CHECK(got.flops == want.flops);
}

void check_graph(const backend::Graph& graph) {
  Numbers numbers;
  BatchTotals totals(graph);
  for (int round = 0; round < 200; ++round) {
    const BatchShape batch = random_batch(numbers);
    totals.clear();
    for (const graph::SequenceShape& s : batch.sequences) totals.add(s);
    totals.outputs = static_cast<std::uint64_t>(batch.outputs);
    totals.distinct_tokens = static_cast<std::uint64_t>(batch.distinct_tokens);
    const BatchCost cost(graph, batch.kv);
    check_equal(cost.total(totals), cost_of(graph, batch));
    for (const BatchCost::Kind& kind : cost.kinds()) {
      check_equal(BatchCost::cost(kind, totals), cost_of(graph, kind.op, batch));
    }
  }
}

}  // namespace

TEST_CASE("the cost from totals is the cost counted op by op, exactly") {
  for (const int window : {0, 1, 2, 17}) check_graph(tests::tiny_graph(window));
  check_graph(expert_graph());
}

TEST_CASE("ops of equal cost are asked once") {
  const backend::Graph graph = expert_graph();
  const BatchCost cost(graph, {});
  std::uint64_t ops = 0;
  for (const BatchCost::Kind& kind : cost.kinds()) ops += kind.count;
  CHECK(ops == graph.ops.size());
  CHECK(cost.kinds().size() < graph.ops.size());
}
