// Steps of a whole decoder on the CUDA device: those that are recorded and replayed give the bits of those whose
// launches are made one by one, and cost the host few calls.
#include <algorithm>
#include <atomic>
#include <bit>
#include <thread>

#include "host/step_shape.h"
#include "kernels/matmul_quant.h"
#include "steps_run.h"

namespace ptxsim::tests {

TEST_CASE("recorded steps give the bits of single launches and write no other cache rows") {
  const Device d;
  Run recorded(*d.program), single(*d.program);
  Watch watch;
  CHECK(recorded.step(sequences, 4, nullptr) == single.step(sequences, 4, &watch));
  CHECK(watch.ops == static_cast<int>(d.the_case.graph->ops.size()));
  CHECK(watch.in_order);
  const std::uint64_t before = simulated_device().calls.graph_launches;
  // Batches of 1 to 9: buckets of 1, 2, 4, 8 and, at the limit, 9.
  std::uint64_t replays = 0;
  for (int round = 0; round < 3; ++round) {
    for (const std::int32_t n : {1, 2, 3, 5, 9, 4}) {
      INFO("round " << round << ", " << n << " sequences");
      CHECK(recorded.step(n, 1, nullptr) == single.step(n, 1, &watch));
      if (round > 0 || n == 4) ++replays;
    }
  }
  CHECK(simulated_device().calls.graph_launches - before == replays);
  CHECK(recorded.step(3, 1, nullptr, backend::OutputKind::hidden) ==
        single.step(3, 1, &watch, backend::OutputKind::hidden));
  CHECK(recorded.cache() == single.cache());
  no_findings();
}

TEST_CASE("a replayed step costs one graph launch, one wait and no allocation") {
  const Device d;
  // A layer: queries with keys, values, rotations and the cache, attention, output; gate with up, down. What they make
  // becomes fragments by the way. Then: embedding, fragments of the first norm, the head.
  constexpr std::uint64_t whole = 5 * layers + 3, headless = whole - 1;
  struct Wanted {
    backend::OutputKind kind;
    std::uint64_t launches;
  };
  for (const Wanted& k :
       {Wanted{backend::OutputKind::logits, whole}, Wanted{backend::OutputKind::hidden, headless},
        Wanted{backend::OutputKind::arg_max, whole + 1}, Wanted{backend::OutputKind::top_k, whole + 1}}) {
    Run run(*d.program);
    run.step(sequences, 2, nullptr);
    for (const std::int32_t bucket : {1, 2, 4, 8, 9}) {
      INFO("bucket " << bucket << ", output kind " << static_cast<int>(k.kind));
      // The first use loads kernels, the second records: this is what warming up means.
      for (int i = 0; i < 2; ++i) run.step(bucket, 1, nullptr, k.kind);
      const CallCounts before = simulated_device().calls;
      run.step(bucket, 1, nullptr, k.kind);
      const CallCounts after = simulated_device().calls;
      CHECK(after.graph_launches - before.graph_launches == 1);
      CHECK(after.blocking - before.blocking == 1);
      CHECK(after.allocations == before.allocations);
      CHECK(after.copies - before.copies == 2);
      CHECK(after.launches - before.launches == k.launches);
    }
  }
  no_findings();
}

TEST_CASE("launches of layers of all kinds, and their bits") {
  struct Layers {
    const char* name;
    Kind kind;
    std::uint64_t launches;  // of a layer
    std::uint64_t others = 3;
    std::uint64_t many = 0;  // of a layer with more than 8 rows, if those are others
  };
  Kind unmixed, values, wide_values, norms, gemma, fused, experts, narrow, wide;
  unmixed.values = WeightType::q8_0;
  values.type = WeightType::q5_0;
  values.values = WeightType::q8_0;
  wide_values.type = WeightType::q4_k;
  wide_values.values = WeightType::q6_k;
  wide_values.width = 256;
  norms.head_norms = true;
  gemma.head_norms = gemma.post_norms = true;
  gemma.cap = 20;
  fused.fused = true;
  experts.experts = narrow.experts = wide.experts = true;
  narrow.inner = 32;
  wide.width = 256;
  // Experts: router and choice, gate with up, down with all that is behind it.
  for (const Layers& l : {Layers{"values of another type that is not mixed", unmixed, 6},
                          Layers{"values of another type", values, 5, 3, 6},
                          Layers{"values of another type, blocks of 256", wide_values, 5, 3, 6},
                          Layers{"norms of heads", norms, 5}, Layers{"norms behind branches, soft cap", gemma, 5, 4},
                          Layers{"fused projections", fused, 5}, Layers{"experts", experts, 6},
                          Layers{"narrow experts", narrow, 6}, Layers{"experts, several blocks a row", wide, 6}}) {
    INFO(l.name);
    const Device d(l.kind);
    const std::shared_ptr<const backend::Program> apart = d.compile(with_readers(*d.the_case.graph));
    const std::int32_t width = l.kind.width;
    Run recorded(*d.program, width), single(*d.program, width), unfolded(*apart, width);
    Watch watch;
    const std::vector<float> prompt = single.step(sequences, 4, &watch);
    CHECK(recorded.step(sequences, 4, nullptr) == prompt);
    CHECK(unfolded.step(sequences, 4, nullptr) == prompt);
    for (const std::int32_t n : {1, 4, 9}) {
      for (int i = 0; i < 2; ++i) {
        const std::vector<float> expected = single.step(n, 1, &watch);
        CHECK(recorded.step(n, 1, nullptr) == expected);
        CHECK(unfolded.step(n, 1, nullptr) == expected);
      }
      const std::vector<float> expected = single.step(n, 1, &watch);
      const CallCounts before = simulated_device().calls;
      CHECK(recorded.step(n, 1, nullptr) == expected);
      const std::uint64_t each = n > 8 && l.many != 0 ? l.many : l.launches;
      CHECK(simulated_device().calls.launches - before.launches == each * layers + l.others);
      CHECK(unfolded.step(n, 1, nullptr) == expected);
    }
    // The last norm's values come out, beside what other blocks of its launch still read.
    for (int i = 0; i < 3; ++i) {
      CHECK(recorded.step(9, 1, nullptr, backend::OutputKind::hidden) ==
            single.step(9, 1, &watch, backend::OutputKind::hidden));
    }
    CHECK(recorded.cache() == single.cache());
  }
  no_findings();
}

namespace {

/// On a chip with clusters: recorded steps give the bits of single launches, and of products that do nothing by the
/// way.
void run_in_clusters(const Kind& kind, std::initializer_list<std::int32_t> batches) {
  const Chip before = simulated_device().chip;
  simulated_device().chip = h200_chip;
  const Device d(kind);
  const std::shared_ptr<const backend::Program> apart = d.compile(with_readers(*d.the_case.graph));
  Run recorded(*d.program, kind.width), unfolded(*apart, kind.width);
  simulated_device().record_launches = true;
  for (const std::int32_t n : batches) {
    INFO(n << " sequences");
    simulated_device().launches.clear();
    for (int i = 0; i < 2; ++i) {
      const std::vector<float> expected = unfolded.step(n, 1, nullptr);
      simulated_device().options.order = i == 1 ? Order::descending : Order::seeded;
      CHECK(recorded.step(n, 1, nullptr) == expected);
      simulated_device().options = {};
    }
    const auto in_cluster = [](const LaunchRecord& l) { return l.config.cluster.count() > 1; };
    const auto& launches = simulated_device().launches;
    CHECK(std::any_of(launches.begin(), launches.end(), in_cluster));
  }
  simulated_device().record_launches = false;
  simulated_device().launches.clear();
  CHECK(recorded.cache() == unfolded.cache());
  simulated_device().chip = before;
  no_findings();
}

}  // namespace

TEST_CASE("what launches do by the way they do in clusters too") {
  Kind gemma;
  gemma.width = 1024;
  gemma.head_norms = gemma.post_norms = true;
  run_in_clusters(gemma, {1, 9});
}

TEST_CASE("steps of decoders of more kinds in clusters", "[.][clusters]") {
  Kind plain, experts, values;
  plain.width = values.width = experts.width = 1024;
  experts.experts = true;
  values.type = WeightType::q4_k;
  values.values = WeightType::q6_k;
  for (const Kind& kind : {plain, experts, values}) run_in_clusters(kind, {1, 5, 9});
}

TEST_CASE("rows that are wanted are gathered where others are not") {
  const Device d;
  Run recorded(*d.program), single(*d.program);
  recorded.not_first = single.not_first = true;
  Watch watch;
  CHECK(recorded.step(sequences, 4, nullptr) == single.step(sequences, 4, &watch));
  for (const std::int32_t n : {2, 9}) {
    for (int i = 0; i < 2; ++i) CHECK(recorded.step(n, 1, nullptr) == single.step(n, 1, &watch));
    const std::vector<float> expected = single.step(n, 1, &watch);
    const CallCounts before = simulated_device().calls;
    CHECK(recorded.step(n, 1, nullptr) == expected);
    CHECK(simulated_device().calls.launches - before.launches == 5 * layers + 5);
  }
  // Recorded for those rows, it is not replayed for all.
  recorded.not_first = single.not_first = false;
  CHECK(recorded.step(2, 1, nullptr) == single.step(2, 1, &watch));
  no_findings();
}

TEST_CASE("ranges of a long sequence are merged by the way") {
  const Device d;
  Run recorded(*d.program, 128, 18), single(*d.program, 128, 18);
  Watch watch;
  const auto both = [&](std::int32_t n, std::int32_t count) {
    CHECK(recorded.step(n, count, nullptr) == single.step(n, count, &watch));
  };
  for (int i = 0; i < 7; ++i) both(1, 36);  // 252 keys
  simulated_device().record_launches = true;
  const std::size_t before = simulated_device().launches.size();
  for (const Options& options : all_modes()) {  // one range, then two
    const std::vector<float> expected = single.step(2, 1, &watch);
    simulated_device().options = options;
    CHECK(recorded.step(2, 1, nullptr) == expected);
    simulated_device().options = {};
  }
  bool merged = false;
  for (std::size_t i = before; i < simulated_device().launches.size(); ++i) {
    const LaunchRecord& l = simulated_device().launches[i];
    merged = merged || (l.kernel.find("attention_mma") != std::string::npos && l.config.grid.z == 2);
  }
  simulated_device().record_launches = false;
  simulated_device().launches.clear();
  CHECK(merged);
  no_findings();
}

TEST_CASE("everything a device will hold is reserved before the first step") {
  const Device d;
  const std::shared_ptr<backend::Backend> backend = d.backend;
  Run run(*d.program);
  const std::uint64_t held = backend->memory_used();
  const std::uint64_t allocations = simulated_device().calls.allocations;
  run.step(sequences, 4, nullptr);
  for (const std::int32_t bucket : {1, 3, 9}) {
    for (int i = 0; i < 3; ++i) run.step(bucket, 1, nullptr, backend::OutputKind::top_k);
  }
  CHECK(backend->memory_used() == held);
  CHECK(simulated_device().calls.allocations == allocations);
  no_findings();
}

TEST_CASE("a recorded step is not replayed on another cache") {
  const Device d;
  Run first(*d.program);
  first.step(2, 3, nullptr);
  for (int i = 0; i < 3; ++i) first.step(2, 1, nullptr);
  Run second(*d.program), again(*d.program);
  CHECK(second.step(2, 3, nullptr) == again.step(2, 3, nullptr));
  Watch watch;
  for (int i = 0; i < 3; ++i) CHECK(second.step(2, 1, nullptr) == again.step(2, 1, &watch));
  no_findings();
}

TEST_CASE("what other threads put on the stream is done, while steps are recorded") {
  const Device d;
  std::vector<std::vector<float>> expected;
  const auto steps = [&](const auto& take) {
    Run run(*d.program);
    take(run.step(sequences, 2, nullptr));
    for (const std::int32_t bucket : {1, 2, 4}) {
      for (int i = 0; i < 2; ++i) take(run.step(bucket, 1, nullptr));  // the second time records
    }
  };
  steps([&](std::vector<float> out) { expected.push_back(std::move(out)); });
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, rounds{0};
  std::thread other([&] {
    for (; !stop; ++rounds) {
      const auto space = d.program->workspace();
      const auto kv = d.program->make_kv({KvType::f16, KvType::f16}, std::vector<std::int32_t>{2});
      if (!space.has_value() || !kv.has_value()) {
        ++wrong;
        continue;
      }
      std::vector<std::byte> page(kv.value()->page_bytes(0), std::byte{0x5a}), back(page.size());
      const bool done = kv.value()->write_page(0, 0, page).ok() && kv.value()->copy_page(0, 0, 1).ok() &&
                        kv.value()->read_page(0, 1, back).ok();
      if (!done || back != page) ++wrong;
    }
  });
  for (int i = 0; i < 3; ++i) {
    std::size_t at = 0;
    steps([&](const std::vector<float>& out) { CHECK(out == expected[at++]); });
  }
  stop = true;
  other.join();
  CHECK(rounds > 0);
  CHECK(wrong == 0);
  no_findings();
}

TEST_CASE("pages say in which order they are") {
  const Device d;
  const auto layout = [&](KvType k, KvType v) {
    return std::string(d.program->make_kv({k, v}, std::vector<std::int32_t>{1}).value()->layout());
  };
  for (const KvType type : {KvType::f32, KvType::f16, KvType::bf16}) CHECK(layout(type, type) == "cuda-1");
  for (const KvType type : {KvType::q8_0, KvType::q4_0}) {
    CHECK(layout(type, KvType::f16) == "cuda-2");
    CHECK(layout(KvType::f16, type) == "cuda-2");
  }
}

TEST_CASE("rows that stand for the tokens' own are no more than these") {
  const std::vector<Token> tokens(5);
  const std::vector<std::int32_t> positions(5), rows = {0, 1, 2, 3, 4};
  std::vector<backend::SequenceRange> ranges;
  for (std::int32_t i = 0; i < 5; ++i) ranges.push_back({i, 1, 0, 0});
  const backend::StepBatch batch{tokens, positions, ranges, {}, rows};
  const llminfer::cuda::StepShape shape = llminfer::cuda::shape_of(batch, {}, {6, 9, 9}, 64, false);
  CHECK(shape.all_rows);
  CHECK(shape.tokens == 6);
  CHECK(shape.outputs == 6);
}

TEST_CASE("as many blocks share columns for a bucket's rows as for fewer") {
  for (const WeightType type : {WeightType::q2_k, WeightType::q4_0, WeightType::q4_k, WeightType::q8_0}) {
    for (const unsigned blocks : {2U, 8U, 16U, 32U}) {
      for (const std::int32_t columns : {2048, 4096, 14336}) {
        for (std::int32_t rows = 1; rows <= 16; ++rows) {
          INFO(describe(type).name << ", " << columns << " columns, " << rows << " rows");
          float room = 0;
          llminfer::cuda::MatMulQuantParams p;
          p.partials = &room;
          p.type = type;
          p.chunks = columns / 64;
          p.rows = rows;
          const unsigned exact = llminfer::cuda::splits_of(p, blocks, 16, 1, 256);
          p.rows = static_cast<std::int32_t>(std::bit_ceil(static_cast<unsigned>(rows)));
          CHECK(llminfer::cuda::splits_of(p, blocks, 16, 1, 256) == exact);
        }
      }
    }
  }
}

}  // namespace ptxsim::tests
