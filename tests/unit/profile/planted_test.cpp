// Bottlenecks that were put there: the verdict must name the right one. The ceilings are made up so that only what was
// planted decides; steps run on the CPU device.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "catch.h"
#include "device/cpu/cpu_backend.h"
#include "graph/op_io.h"
#include "made_ceilings.h"
#include "profile/analysis.h"
#include "profile/step_runner.h"
#include "profile/synthetic.h"

namespace {
std::atomic<std::uint64_t> allocations{0};
}

// Not inlined: gcc would see free() meet a pointer of new.
[[gnu::noinline]] void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
// What std::stable_sort uses; without it the sanitizer's own would answer.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

using namespace llminfer;
using profile::Recorder;
using profile::SyntheticShape;

namespace {

/// Passes spans on, after spinning for so many times the span's length where the op is of that kind.
class SpinningSink final : public backend::ProfileSink {
 public:
  SpinningSink(Recorder& recorder, std::string kind, int times)
      : recorder_(recorder), kind_(std::move(kind)), times_(times) {}
  void on_span(const backend::OpSpan& span) noexcept override {
    backend::OpSpan slow = span;
    for (std::int32_t i = span.first_op; i < span.first_op + span.op_count; ++i) {
      if (kind_ != graph::name_of(recorder_.graph().ops[static_cast<std::size_t>(i)])) continue;
      const core::SteadyClock clock;
      const std::int64_t until = clock.now_ns() + times_ * (span.end_ns - span.start_ns);
      while (clock.now_ns() < until) {
      }
      slow.end_ns = clock.now_ns();
      break;
    }
    recorder_.on_span(slow);
  }

 private:
  Recorder& recorder_;
  std::string kind_;
  int times_;
};

/// Spans as long as the cost model says, on a clock that only they move: other work on the machine changes nothing.
class ModelledSink final : public backend::ProfileSink {
 public:
  ModelledSink(Recorder& recorder, core::ManualClock& clock, graph::BatchShape batch)
      : recorder_(recorder), clock_(clock), batch_(std::move(batch)) {}
  void on_span(const backend::OpSpan& span) noexcept override {
    const profile::CostModel& model = recorder_.model();
    const backend::Graph& graph = recorder_.graph();
    const bool resident = model.resident(graph, batch_);
    backend::OpSpan made = span;
    made.start_ns = clock_.now_ns();
    double seconds = 0;
    for (std::int32_t i = span.first_op; i < span.first_op + span.op_count; ++i) {
      const auto op = static_cast<std::size_t>(i);
      seconds += model.seconds(graph, op, graph::cost_of(graph, op, batch_), batch_, resident);
    }
    clock_.advance_ns(static_cast<std::int64_t>(seconds * 1e9));
    made.end_ns = clock_.now_ns();
    made.wait_ns = static_cast<std::int64_t>(wait_share * static_cast<double>(made.end_ns - made.start_ns));
    recorder_.on_span(made);
  }
  double wait_share = 0;

 private:
  Recorder& recorder_;
  core::ManualClock& clock_;
  graph::BatchShape batch_;
};

/// A decoder on one thread of the CPU device, with a recorder of real or modelled time.
struct Bench {
  explicit Bench(const SyntheticShape& shape, int layers, bool modelled = true, Ceilings c = tests::made_ceilings(1))
      : ceilings(std::move(c)),
        clock(std::make_shared<core::ManualClock>()),
        device(cpu::make_cpu_backend({1})),
        graph(profile::synthetic_decoder(shape,
                                         std::vector<WeightType>(static_cast<std::size_t>(layers), WeightType::q8_0))),
        runner(*device, graph, profile::SyntheticWeights(graph), {256, 8, 8}, shape.context),
        recorder(graph, {}, profile::CostModel(ceilings, 1), 8,
                 modelled ? std::shared_ptr<const core::Clock>(clock) : std::make_shared<core::SteadyClock>()) {
    subject.model = "synthetic <&>";
    subject.device = "test";
    subject.threads = 1;
    subject.cores = 1;
    subject.kv_bytes = 1 << 20;
    subject.ceilings = ceilings;
  }

  void steps(int n, const std::vector<graph::SequenceShape>& sequences, backend::ProfileSink& sink) {
    runner.run(sequences, nullptr);  // warms
    recorder.reset();
    for (int i = 0; i < n; ++i) runner.run(sequences, &sink, &recorder);
  }
  void modelled_steps(int n, const std::vector<graph::SequenceShape>& sequences, double wait_share = 0) {
    graph::BatchShape batch;
    batch.sequences = sequences;
    batch.outputs = static_cast<std::int32_t>(sequences.size());
    ModelledSink sink(recorder, *clock, batch);
    sink.wait_share = wait_share;
    steps(n, sequences, sink);
  }
  PhaseReport first_phase() {
    report = profile::report_of(recorder.totals(), recorder, subject);
    REQUIRE(report.phases.size() == 1);
    UNSCOPED_INFO(report.text());
    return report.phases.front();
  }

  Ceilings ceilings;
  std::shared_ptr<core::ManualClock> clock;
  std::shared_ptr<backend::Backend> device;
  std::shared_ptr<const backend::Graph> graph;
  profile::StepRunner runner;
  Recorder recorder;
  profile::Subject subject;
  ProfileReport report;
};

constexpr SyntheticShape small{256, 4, 2, 64, 512, 256, 256, {}};

}  // namespace

TEST_CASE("a kernel slowed by a spin loop is named") {
  for (const char* kind : {"matmul", "paged_attention"}) {
    Bench bench({256, 4, 2, 64, 512, 256, 1024, {}}, 2, false);
    SpinningSink sink(bench.recorder, kind, 60);
    bench.steps(6, {{0, 128}}, sink);
    const PhaseReport phase = bench.first_phase();
    CHECK(phase.bound == Bound::slow_kernel);
    CHECK(phase.evidence.find(kind) == 0);
  }
}

TEST_CASE("one thread instead of two is named, and the gain of the second forecast") {
  Ceilings ceilings = tests::made_ceilings(1);
  ceilings.op_overhead_s = 1e-9;
  Bench bench(small, 2, true, ceilings);
  bench.subject.cores = 2;
  bench.modelled_steps(4, {{10, 1}});
  CHECK(bench.first_phase().bound == Bound::threads);
  const bool advised = std::any_of(bench.report.advice.begin(), bench.report.advice.end(), [](const Advice& a) {
    return a.move == "2 threads instead of 1" && a.gain > 1.5 && a.gain < 2.1;
  });
  CHECK(advised);
}

TEST_CASE("a tiny model is bound by overhead") {
  Bench bench({64, 2, 1, 32, 64, 64, 128, {}}, 8);
  bench.modelled_steps(20, {{10, 1}});
  const PhaseReport phase = bench.first_phase();
  CHECK(phase.bound == Bound::overhead);
  CHECK(phase.evidence.find("the weights fit into the last cache") != std::string::npos);
}

TEST_CASE("long contexts are bound by reading keys and values") {
  Ceilings ceilings = tests::made_ceilings(1);
  ceilings.op_overhead_s = 1e-9;
  ceilings.at[0].read.best = 4e9;
  Bench bench({128, 4, 4, 64, 128, 64, 4096, {}}, 2, true, ceilings);
  bench.modelled_steps(3, {{4000, 1}, {4000, 1}, {4000, 1}, {4000, 1}});
  const PhaseReport phase = bench.first_phase();
  CHECK(phase.bound == Bound::kv);
  const bool advised = std::any_of(bench.report.advice.begin(), bench.report.advice.end(),
                                   [](const Advice& a) { return a.move == "keys and values as q8_0"; });
  CHECK(advised);
}

TEST_CASE("threads that wait for each other are named") {
  Bench bench(small, 2);
  bench.modelled_steps(4, {{0, 100}}, 0.5);
  const PhaseReport phase = bench.first_phase();
  CHECK(phase.bound == Bound::waiting);
  CHECK(phase.evidence.find("threads wait for each other 50 %") == 0);
}

TEST_CASE("prompts are bound by compute, single tokens by memory") {
  Ceilings ceilings = tests::made_ceilings(1);
  ceilings.at[0].caches[2].bytes = 1 << 20;  // the model does not fit
  ceilings.op_overhead_s = 1e-9;
  Bench prompt(small, 4, true, ceilings);
  prompt.modelled_steps(3, {{0, 200}});
  CHECK(prompt.first_phase().bound == Bound::compute);
  Bench token({512, 8, 2, 64, 1536, 256, 256, {}}, 6, true, ceilings);
  token.modelled_steps(10, {{3, 1}});
  const PhaseReport phase = token.first_phase();
  CHECK(phase.bound == Bound::memory);
  CHECK(token.report.knee > 1);
  for (const Advice& a : token.report.advice) CHECK(a.gain >= 1.05);
}

TEST_CASE("recording a step allocates nothing") {
  Bench bench(small, 2);
  const std::vector<graph::SequenceShape> sequences = {{5, 1}, {7, 1}};
  const auto allocated = [&](Recorder* recorder) {
    bench.runner.run(sequences, recorder, recorder);
    const std::uint64_t before = allocations.load();
    for (int i = 0; i < 10; ++i) bench.runner.run(sequences, recorder, recorder);
    return allocations.load() - before;
  };
  CHECK(allocated(nullptr) == allocated(&bench.recorder));
}

TEST_CASE("times, costs and pictures of a report fit together") {
  Bench bench(small, 3, false);
  bench.steps(5, {{5, 1}, {7, 1}}, bench.recorder);
  const PhaseReport phase = bench.first_phase();
  CHECK(phase.steps == 5);
  CHECK(phase.tokens == 10);
  CHECK(phase.sequences == Approx(2));
  CHECK(phase.context == Approx(6));
  double ops = 0, layers = 0;
  std::uint64_t flops = 0;
  for (const OpSummary& op : phase.by_op) ops += op.seconds, flops += op.flops;
  for (const OpSummary& op : phase.by_layer) layers += op.seconds;
  CHECK(ops == Approx(phase.all.seconds));
  CHECK(layers == Approx(phase.all.seconds));
  CHECK(phase.all.seconds + phase.barrier_seconds + phase.dispatch_seconds == Approx(phase.step_seconds));
  const graph::BatchShape shape = [] {
    graph::BatchShape s;
    s.sequences = {{5, 1}, {7, 1}};
    s.outputs = 2;
    return s;
  }();
  CHECK(flops == 5 * graph::cost_of(*bench.graph, shape).flops);
  const TimeParts& t = bench.report.time;
  CHECK(t.ops + t.barriers + t.dispatch + t.sampling + t.scheduling + t.outside + t.idle == Approx(t.wall));
  const std::string html = bench.report.html();
  CHECK(html.find("synthetic &lt;&amp;&gt;") != std::string::npos);
  CHECK(html.find("<&>") == std::string::npos);
  CHECK(html.find("http://www.w3.org/2000/svg") != std::string::npos);
  CHECK(html.find("nan") == std::string::npos);
  for (const char* picture : {"roofline", "time", "memory", "batch"})
    CHECK(bench.report.svg(picture).find("</svg>") != std::string::npos);
  CHECK(bench.report.svg("other").empty());
  CHECK(bench.report.text().find("decode: bound by") != std::string::npos);
}
