#include <algorithm>
#include <cmath>
#include <vector>

#include "../graph/tiny_graph.h"
#include "catch.h"
#include "core/clock.h"
#include "device/sim/roofline.h"
#include "device/sim/sim_backend.h"

using namespace llminfer;
using device::sim::Roofline;

namespace {

DeviceDescription slow_device() {
  DeviceDescription d;
  d.name = "slow";
  d.page_size = 8;
  d.quantized = MultiplyAdd::int8;
  d.attention = MultiplyAdd::f16;
  d.memory = {1e9, "test"};
  d.bandwidth = {1e9, "test"};
  d.cache = {1e9, "test"};
  d.f32 = {1e9, "test"};
  d.f16 = {2e9, "test"};
  d.int8 = {4e9, "test"};
  d.bandwidth_share = {0.5, "test"};
  d.compute_share = {0.25, "test"};
  d.group_overhead = {1e-6, "test"};
  d.step_overhead = {1e-4, "test"};
  return d;
}

constexpr backend::KvFormat f16_cache{KvType::f16, KvType::f16};

/// As the header of roofline.h has it, from the costs counted op by op.
double expected_ns(const DeviceDescription& d, const backend::Graph& graph, const graph::BatchShape& batch) {
  double seconds = d.step_overhead.value + static_cast<double>(graph.groups.size()) * d.group_overhead.value;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const graph::OpCost cost = cost_of(graph, i, batch);
    double bytes = static_cast<double>(cost.weight_bytes + cost.kv_read_bytes + cost.kv_write_bytes);
    if (static_cast<double>(cost.activation_bytes) > d.cache.value) bytes += static_cast<double>(cost.activation_bytes);
    const backend::Op& op = graph.ops[i];
    double rate = d.f32.value;
    if (std::holds_alternative<backend::MatMul>(op)) rate = d.int8.value;  // all weights are q8_0
    if (std::holds_alternative<backend::PagedAttention>(op)) rate = d.f16.value;
    seconds += std::max(bytes / (d.bandwidth.value * d.bandwidth_share.value),
                        static_cast<double>(cost.flops) / (rate * d.compute_share.value));
  }
  return 1e9 * seconds;
}

class NoWeights final : public backend::WeightReader {
 public:
  Result<void> read_rows(backend::WeightId, std::int64_t, std::int64_t, std::span<std::byte>) const override {
    return Error{ErrorCode::corrupt, "the simulated device must not read weights", "", 0, 0};
  }
};

struct LastSpan final : backend::ProfileSink {
  void on_span(const backend::OpSpan& span) noexcept override { last = span; }
  backend::OpSpan last{};
};

/// A device with a compiled tiny graph and one sequence's pages.
struct Simulated {
  explicit Simulated(std::uint64_t seed)
      : device(device::sim::make_sim_backend(slow_device(), seed, clock)),
        program(device->compile(graph, NoWeights(), {{16, 2, 2}, {}, {}}).value()),
        kv(program->make_kv(f16_cache, std::vector<std::int32_t>{4}).value()),
        workspace(program->workspace().value()) {}

  backend::StepBatch batch(std::int32_t start) {
    positions = {start, start + 1, start + 2};
    ranges = {{0, 3, start, 0}};
    tables = {{pages.data(), static_cast<std::int32_t>(pages.size())}};
    return {tokens, positions, ranges, tables, rows};
  }
  backend::Status run(const backend::StepBatch& step, const backend::StepOutputs& outputs) {
    return program->run(step, *kv, *workspace, outputs, stop, &span);
  }

  std::shared_ptr<core::ManualClock> clock = std::make_shared<core::ManualClock>(1000);
  std::shared_ptr<const backend::Graph> graph = std::make_shared<backend::Graph>(tests::tiny_graph());
  std::shared_ptr<backend::Backend> device;
  std::shared_ptr<const backend::Program> program;
  std::unique_ptr<backend::KvStorage> kv;
  std::unique_ptr<backend::Workspace> workspace;
  backend::StopFlag stop;
  LastSpan span;
  std::vector<Token> tokens{5, 6, 7};
  std::vector<std::int32_t> positions;
  std::vector<backend::SequenceRange> ranges;
  std::vector<std::int32_t> pages{2, 0, 3};
  std::vector<backend::PageTable> tables;
  std::vector<std::int32_t> rows{1, 2};
};

std::vector<std::int32_t> chosen(std::uint64_t seed, std::int32_t start) {
  Simulated sim(seed);
  std::vector<std::int32_t> ids(2, -1);
  std::vector<float> scores(2);
  backend::StepOutputs outputs;
  outputs.kind = backend::OutputKind::arg_max;
  outputs.ids = ids;
  outputs.scores = scores;
  REQUIRE(sim.run(sim.batch(start), outputs).ok());
  return ids;
}

}  // namespace

TEST_CASE("a step takes the roofline time of its ops") {
  DeviceDescription d = slow_device();
  const backend::Graph graph = tests::tiny_graph(5);
  for (const double cache : {1e9, 3000.0, 0.0}) {
    d.cache.value = cache;
    const Roofline roofline(d, graph, f16_cache);
    for (const std::vector<graph::SequenceShape>& sequences :
         std::vector<std::vector<graph::SequenceShape>>{{{0, 1}}, {{0, 16}}, {{9, 1}, {30, 1}, {0, 7}}}) {
      graph::BatchShape batch;
      batch.sequences = sequences;
      batch.outputs = 1;
      batch.kv = f16_cache;
      graph::BatchTotals totals(graph);
      for (const graph::SequenceShape& s : sequences) totals.add(s);
      totals.outputs = 1;
      CHECK(std::abs(static_cast<double>(roofline.step_ns(totals)) - expected_ns(d, graph, batch)) <= 1.0);
    }
  }
}

TEST_CASE("a step moves the clock and nothing else, and its span says by how much") {
  Simulated sim(1);
  std::vector<float> logits(200, -1.0F);
  backend::StepOutputs outputs;
  outputs.values = logits;
  REQUIRE(sim.run(sim.batch(0), outputs).ok());
  CHECK(sim.span.last.start_ns == 1000);
  CHECK(sim.span.last.end_ns == sim.clock->now_ns());
  CHECK(sim.span.last.op_count == static_cast<std::int32_t>(sim.graph->ops.size()));
  CHECK(std::count(logits.begin(), logits.end(), 1.0F) == 2);
  CHECK(std::count(logits.begin(), logits.end(), 0.0F) == 198);
  const std::int64_t before = sim.clock->now_ns();
  sim.stop.request();
  CHECK(sim.run(sim.batch(3), outputs).code == ErrorCode::cancelled);
  sim.stop.clear();
  sim.pages[0] = 4;  // the pool has pages 0 to 3
  CHECK(sim.run(sim.batch(3), outputs).code == ErrorCode::invalid_argument);
  CHECK(sim.clock->now_ns() == before);
  CHECK(sim.device->memory_used() == 0);
}

TEST_CASE("tokens depend on seed, token and position alone, and every output kind agrees") {
  const std::vector<std::int32_t> ids = chosen(7, 0);
  CHECK(ids == chosen(7, 0));
  CHECK(ids != chosen(8, 0));
  CHECK(ids != chosen(7, 1));
  Simulated sim(7);
  std::vector<float> logits(200);
  backend::StepOutputs outputs;
  outputs.values = logits;
  REQUIRE(sim.run(sim.batch(0), outputs).ok());
  CHECK(logits[static_cast<std::size_t>(ids[0])] == 1.0F);
  std::vector<std::int32_t> top(4, -1);
  std::vector<float> scores(4);
  std::vector<float> sums(2);
  outputs.kind = backend::OutputKind::top_k;
  outputs.k = 2;
  outputs.ids = top;
  outputs.scores = scores;
  outputs.log_sum_exp = sums;
  REQUIRE(sim.run(sim.batch(0), outputs).ok());
  CHECK(top[0] == ids[0]);
  CHECK(top[2] == ids[1]);
  outputs.kind = backend::OutputKind::arg_max;
  std::vector<std::uint32_t> allowed(8, 0);
  allowed[0] = allowed[4] = 1U << 3;  // token 3 alone
  outputs.allowed = allowed;
  REQUIRE(sim.run(sim.batch(0), outputs).ok());
  CHECK(top[0] == 3);
  CHECK(top[1] == 3);
}
