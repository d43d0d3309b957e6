// Steps of a whole decoder on the CUDA device: those that are recorded and replayed give the bits of those whose
// launches are made one by one, and cost the host few calls.
#include <cmath>
#include <cstring>

#include "catch.h"
#include "host/cuda_backend.h"
#include "ops/cases/case_builder.h"
#include "runtime/device.h"
#include "support.h"

namespace ptxsim::tests {
namespace {

using namespace llminfer;  // NOLINT(google-build-using-namespace): a test
using backend::none;
using backend::ValueId;

constexpr std::int32_t width = 128, head = 64, kv_width = 64, layers = 2, vocabulary = 80, sequences = 9;

/// What a decoder differs in.
struct Kind {
  WeightType values = WeightType::q4_0;  ///< of the weight that makes them
  bool experts = false;
  std::int32_t inner = 96;  ///< width inside an expert
};

ValueId product(op_cases::CaseBuilder& b, ValueId in, std::int32_t out, WeightType type = WeightType::q4_0) {
  const std::int32_t columns = b.width(in);
  return b.add(backend::MatMul{in, b.weight(type, columns, out, 1, 1.0 / std::sqrt(columns)), none, none}, in, out);
}
ValueId norm(op_cases::CaseBuilder& b, ValueId in) {
  return b.add(backend::RmsNorm{in, b.vector(width, 1.0, 0.2), none, width, 1e-5F}, in, width);
}

/// Two of four experts.
ValueId experts(op_cases::CaseBuilder& b, ValueId in, std::int32_t inner) {
  constexpr std::int32_t count = 4, used = 2;
  backend::MoeRoute route;
  route.in = product(b, in, count, WeightType::f32);
  route.experts = count;
  route.used = used;
  route.normalize = true;
  const ValueId chosen = b.add(route, in, 2 * used);
  const auto each = [&](ValueId from, std::int32_t columns, std::int32_t out) {
    const backend::WeightId w = b.weight(WeightType::q8_0, columns, out, count, 1.0 / std::sqrt(columns));
    return b.add(backend::MoeMatMul{from, chosen, w, none, none, used}, in, used * out);
  };
  backend::GatedActivation act;
  act.gate = each(in, width, inner);
  act.up = each(in, width, inner);
  const ValueId down = each(b.add(act, in, used * inner), inner, width);
  return b.add(backend::MoeCombine{down, chosen, none, used}, in, width);
}

/// A gated feed-forward part.
ValueId dense(op_cases::CaseBuilder& b, ValueId in) {
  backend::GatedActivation act;
  act.gate = product(b, in, 2 * width);
  act.up = product(b, in, 2 * width);
  return product(b, b.add(act, act.gate, 2 * width), width);
}

/// One layer: two query heads on one KV head, a feed-forward part.
ValueId layer(op_cases::CaseBuilder& b, ValueId x, bool last, const Kind& kind) {
  const ValueId h = norm(b, x);
  const auto rope = [&](ValueId in, std::int32_t heads) {
    return b.add(backend::Rope{in, none, 0, heads, head, backend::RopePairing::half}, in, b.width(in));
  };
  const ValueId queries = product(b, h, width), keys = product(b, h, kv_width),
                v = product(b, h, kv_width, kind.values);
  const ValueId q = rope(queries, 2), k = rope(keys, 1);
  backend::PagedAttention attention;
  attention.slot = b.state(0, 1, head, head);
  b.push(backend::KvWrite{k, v, attention.slot});
  attention.q = q;
  attention.heads = 2;
  attention.scale = 0.125F;
  ValueId a = b.add(attention, q, width);
  if (last) {
    a = b.gather(a);
    x = b.gather(x);
  }
  x = b.add(backend::Add{x, product(b, a, width), none}, x, width);
  const ValueId f = norm(b, x);
  return b.add(backend::Add{x, kind.experts ? experts(b, f, kind.inner) : dense(b, f), none}, x, width);
}

op_cases::OpCase decoder(const Kind& kind) {
  op_cases::CaseBuilder b("steps");
  b.graph().vocabulary = vocabulary;
  backend::Embed embed;
  embed.weight = b.weight(WeightType::q4_0, width, vocabulary, 1, 1.0);
  embed.out = b.value(backend::Rows::tokens, width);
  b.push(embed);
  backend::RopeTable table;
  for (int i = 0; i < head / 2; ++i)
    table.inverse_frequency.push_back(std::pow(10000.0F, -2.0F * static_cast<float>(i) / head));
  b.graph().rope_tables.push_back(table);
  ValueId x = embed.out;
  for (int l = 0; l < layers; ++l) x = layer(b, x, l + 1 == layers, kind);
  const ValueId last = norm(b, x);
  b.graph().hidden = last;
  b.graph().context = 320;
  return b.finish(b.add(backend::MatMul{last, embed.weight, none, none}, last, vocabulary), 1);
}

class Weights final : public backend::WeightReader {
 public:
  explicit Weights(const op_cases::OpCase& c) : case_(c) {}
  Result<void> read_rows(backend::WeightId id, std::int64_t first, std::int64_t count,
                         std::span<std::byte> out) const override {
    const auto row = out.size() / static_cast<std::size_t>(count);
    std::memcpy(out.data(), case_.weights[static_cast<std::size_t>(id)].data() + static_cast<std::size_t>(first) * row,
                out.size());
    return {};
  }

 private:
  const op_cases::OpCase& case_;
};

/// Asks for every op's time, so that launches are made one by one.
struct Watch final : backend::ProfileSink {
  void on_span(const backend::OpSpan& span) noexcept override {
    in_order = in_order && span.first_op == ops;
    ops += span.op_count;
  }
  int ops = 0;
  bool in_order = true;
};

/// A workspace and a cache, with sequences that grow.
class Run {
 public:
  /// `pages_each`: of 16 tokens, for each sequence. There are others too, and as many in all as no multiple of 7.
  explicit Run(const backend::Program& program, std::int32_t pages_each = 2)
      : program_(program),
        pages_each_(pages_each),
        pages_(sequences * pages_each + 5),
        space_(program.workspace().value()),
        kv_(program.make_kv({KvType::f16, KvType::f16}, std::vector<std::int32_t>{pages_}).value()) {}

  /// `count` tokens for each of the first `n` sequences; every last token comes out.
  std::vector<float> step(std::int32_t n, std::int32_t count, backend::ProfileSink* profile,
                          backend::OutputKind kind = backend::OutputKind::logits) {
    std::vector<Token> tokens;
    std::vector<std::int32_t> positions, outputs, page_numbers;
    std::vector<backend::SequenceRange> ranges;
    std::vector<backend::PageTable> tables;
    for (std::int32_t s = 0; s < sequences; ++s) {
      for (std::int32_t p = 0; p < pages_each_; ++p) page_numbers.push_back((s * pages_each_ + p) * 7 % pages_);
    }
    for (std::int32_t s = 0; s < n; ++s) {
      std::int32_t& length = length_[static_cast<std::size_t>(s)];
      ranges.push_back({s * count, count, length, 0});
      for (std::int32_t i = 0; i < count; ++i) {
        tokens.push_back((s * 31 + (length + i) * 7 + 3) % vocabulary);
        positions.push_back(length + i);
      }
      length += count;
      outputs.push_back(static_cast<std::int32_t>(tokens.size()) - 1);
      tables.push_back({page_numbers.data() + s * pages_each_, pages_each_});
    }
    const std::int32_t columns = kind == backend::OutputKind::hidden ? width : vocabulary;
    std::vector<float> out(static_cast<std::size_t>(n * columns));
    std::vector<std::int32_t> ids(static_cast<std::size_t>(n * k));
    std::vector<float> scores(ids.size()), sums(static_cast<std::size_t>(n));
    backend::StepOutputs to;
    to.kind = kind;
    to.values = out;
    to.ids = ids;
    to.scores = scores;
    to.log_sum_exp = sums;
    to.k = k;
    const backend::Status status =
        program_.run({tokens, positions, ranges, tables, outputs}, *kv_, *space_, to, stop_, profile);
    INFO((status.message != nullptr ? status.message : ""));
    CHECK(status.ok());
    return kind == backend::OutputKind::arg_max || kind == backend::OutputKind::top_k ? scores : out;
  }
  std::vector<std::byte> cache() const {
    std::vector<std::byte> all;
    std::vector<std::byte> page(kv_->page_bytes(0));
    for (std::int32_t p = 0; p < pages_; ++p) {
      CHECK(kv_->read_page(0, p, page).ok());
      all.insert(all.end(), page.begin(), page.end());
    }
    return all;
  }

 private:
  static constexpr std::int32_t k = 5;
  const backend::Program& program_;
  std::int32_t pages_each_, pages_;
  std::unique_ptr<backend::Workspace> space_;
  std::unique_ptr<backend::KvStorage> kv_;
  backend::StopFlag stop_;
  std::array<std::int32_t, sequences> length_{};
};

struct Device {
  explicit Device(const Kind& kind = {}) : the_case(decoder(kind)) {
    backend::CompileOptions options;
    options.limits = {36, sequences, sequences};
    program = backend->compile(the_case.graph, Weights(the_case), options).value();
  }
  std::shared_ptr<backend::Backend> backend = cuda::make_cuda_backend(0);
  op_cases::OpCase the_case;
  std::shared_ptr<const backend::Program> program;
};

void no_findings() {
  for (const Finding& f : simulated_device().findings) FAIL_CHECK(name_of(f.check) << " " << f.source << " " << f.text);
  simulated_device().findings.clear();
}

}  // namespace

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
  // A layer: queries with keys and values, rotations with the cache, attention, output; gate with up, down. What they
  // make becomes fragments by the way. Then: embedding, fragments of the first norm, two rows gathered, the head.
  constexpr std::uint64_t whole = 6 * layers + 5, headless = whole - 1;
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

TEST_CASE("launches of layers with weights of two types, and with experts") {
  struct Layers {
    const char* name;
    Kind kind;
    std::uint64_t launches;  // of a layer
  };
  // Experts: router, choice, tokens in the order of experts, gate with up, down, combination.
  for (const Layers& l : {Layers{"values of another type", {WeightType::q8_0}, 7},
                          {"experts", {WeightType::q4_0, true}, 10},
                          Layers{"narrow experts", {WeightType::q4_0, true, 32}, 10}}) {
    INFO(l.name);
    const Device d(l.kind);
    Run recorded(*d.program), single(*d.program);
    Watch watch;
    CHECK(recorded.step(sequences, 4, nullptr) == single.step(sequences, 4, &watch));
    for (const std::int32_t n : {1, 4, 9}) {
      for (int i = 0; i < 2; ++i) CHECK(recorded.step(n, 1, nullptr) == single.step(n, 1, &watch));
      const std::vector<float> expected = single.step(n, 1, &watch);
      const CallCounts before = simulated_device().calls;
      CHECK(recorded.step(n, 1, nullptr) == expected);
      CHECK(simulated_device().calls.launches - before.launches == l.launches * layers + 5);
    }
    // The last norm's values come out, beside what other blocks of its launch still read.
    for (int i = 0; i < 3; ++i) {
      CHECK(recorded.step(9, 1, nullptr, backend::OutputKind::hidden) ==
            single.step(9, 1, &watch, backend::OutputKind::hidden));
    }
  }
  no_findings();
}

TEST_CASE("ranges of a long sequence are merged by the way") {
  const Device d;
  Run recorded(*d.program, 18), single(*d.program, 18);
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

}  // namespace ptxsim::tests
