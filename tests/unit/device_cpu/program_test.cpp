// Whole graphs on the CPU device: against the reference device, and equal bits however a prompt is cut or batched.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "catch.h"
#include "core/memory.h"
#include "device/common/reduce_outputs.h"
#include "device/cpu/cpu_backend.h"
#include "device/cpu/schedule.h"
#include "device/reference/reference_backend.h"
#include "graph/builder.h"
#include "random_rows.h"
#include "support/relative_difference.h"

namespace llminfer::cpu::test {
namespace {

using backend::ValueId;
using backend::WeightId;

/// What the test's decoder is made of.
struct Spec {
  WeightType type = WeightType::q8_0;
  int layers = 2, width = 64, heads = 4, heads_kv = 2, head = 32, feed = 96, vocabulary = 50;
  int window = 0;
  float cap = 0.0F;
  bool sinks = false, moe = false, bias = false, post_norm = false;
  bool fused = false;  // one matrix for q, k and v, and one for gate and up
  int repeat = 0;      // rows of the vocabulary's table after which they come again
  backend::Activation activation = backend::Activation::silu;
};

class TestModel final : public backend::WeightReader {
 public:
  explicit TestModel(const Spec& spec) : spec_(spec), random_(11) { graph_ = build(); }

  Result<void> read_rows(WeightId weight, std::int64_t first, std::int64_t count,
                         std::span<std::byte> out) const override {
    const std::vector<std::byte>& from = bytes_[static_cast<std::size_t>(weight)];
    const backend::Weight& w = graph_->weights[static_cast<std::size_t>(weight)];
    const std::size_t row = from.size() / static_cast<std::size_t>(w.rows * w.experts);
    std::memcpy(out.data(), from.data() + static_cast<std::size_t>(first) * row, static_cast<std::size_t>(count) * row);
    return {};
  }
  const std::shared_ptr<const backend::Graph>& graph() const { return graph_; }

 private:
  WeightId matrix(WeightType type, std::int64_t columns, std::int64_t rows, std::int64_t experts = 1) {
    backend::Weight weight;
    weight.name = std::to_string(bytes_.size());
    weight.type = type;
    weight.columns = columns;
    weight.rows = rows;
    weight.experts = experts;
    bytes_.push_back(random_rows(type, rows * experts, columns, random_));
    return b_.weight(weight);
  }
  void repeat_rows(std::vector<std::byte>& table) const {
    const std::size_t row = table.size() / static_cast<std::size_t>(spec_.vocabulary);
    const std::size_t period = row * static_cast<std::size_t>(spec_.repeat);
    for (std::size_t i = period; i < table.size(); ++i) table[i] = table[i - period];
  }
  WeightId vector(std::int64_t n, std::int64_t rows = 1) { return matrix(WeightType::f32, n, rows); }

  ValueId experts(ValueId h) {
    backend::MoeRoute route;
    route.in = b_.matmul(h, matrix(WeightType::f32, spec_.width, 5));
    route.experts = 5;
    route.used = 2;
    route.gating = backend::Gating::softmax;
    route.normalize = true;
    const ValueId r = b_.moe_route(route);
    const ValueId gate = b_.moe_matmul(h, r, 2, matrix(spec_.type, spec_.width, spec_.feed, 5), vector(spec_.feed, 5));
    const ValueId up = b_.moe_matmul(h, r, 2, matrix(spec_.type, spec_.width, spec_.feed, 5));
    const ValueId act = b_.gated_activation(gate, up, spec_.activation);
    return b_.moe_combine(b_.moe_matmul(act, r, 2, matrix(spec_.type, spec_.feed, spec_.width, 5)), r, 2);
  }

  /// x + branch
  ValueId add(ValueId x, ValueId branch) {
    if (spec_.post_norm) branch = b_.rms_norm(branch, vector(spec_.width), spec_.width, 1e-5F);
    return b_.add(x, branch);
  }

  ValueId layer(ValueId x, int index) {
    b_.group(backend::GroupKind::qkv, index);
    const ValueId h = b_.rms_norm(x, vector(spec_.width), spec_.width, 1e-5F);
    const int q_width = spec_.heads * spec_.head, kv_width = spec_.heads_kv * spec_.head;
    const WeightId bias = spec_.bias ? vector(q_width) : backend::none;
    ValueId q, k, v;
    if (spec_.fused) {
      const int all_width = q_width + 2 * kv_width;
      const ValueId all = b_.matmul(h, matrix(spec_.type, spec_.width, all_width), vector(all_width));
      q = b_.slice(all, 0, q_width);
      k = b_.slice(all, q_width, kv_width);
      v = b_.slice(all, q_width + kv_width, kv_width);
    } else {
      q = b_.matmul(h, matrix(spec_.type, spec_.width, q_width), bias);
      k = b_.matmul(h, matrix(spec_.type, spec_.width, kv_width));
      v = b_.matmul(h, matrix(spec_.type, spec_.width, kv_width));
    }
    backend::RopeTable table;
    for (int i = 0; i < spec_.head / 2; ++i) table.inverse_frequency.push_back(std::pow(0.7F, static_cast<float>(i)));
    const std::int32_t rope = b_.rope_table(table);
    q = b_.rope(b_.rms_norm(q, vector(spec_.head), spec_.head, 1e-5F), rope, spec_.heads, backend::RopePairing::half);
    k = b_.rope(k, rope, spec_.heads_kv, backend::RopePairing::half);
    backend::PagedAttention op;
    op.slot = b_.state(index % 2 == 0 ? spec_.window : 0, spec_.heads_kv, spec_.head, spec_.head);
    b_.kv_write(k, v, op.slot);
    b_.group(backend::GroupKind::attention, index);
    op.q = q;
    op.heads = spec_.heads;
    op.scale = 0.2F;
    op.cap = spec_.cap;
    if (spec_.sinks) op.sinks = vector(spec_.heads);
    const ValueId attended = b_.attention(op);
    b_.group(backend::GroupKind::attention_out, index);
    x = add(x, b_.matmul(attended, matrix(spec_.type, q_width, spec_.width)));
    b_.group(backend::GroupKind::ffn, index);
    const ValueId n = b_.rms_norm(x, vector(spec_.width), spec_.width, 1e-5F);
    if (spec_.moe) return add(x, experts(n));
    ValueId gate, up;
    if (spec_.fused) {
      const ValueId both = b_.matmul(n, matrix(spec_.type, spec_.width, 2 * spec_.feed));
      gate = b_.slice(both, 0, spec_.feed);
      up = b_.slice(both, spec_.feed, spec_.feed);
    } else {
      gate = b_.matmul(n, matrix(spec_.type, spec_.width, spec_.feed));
      up = b_.matmul(n, matrix(spec_.type, spec_.width, spec_.feed));
    }
    const ValueId act = b_.gated_activation(gate, up, spec_.activation);
    return add(x, b_.matmul(act, matrix(spec_.type, spec_.feed, spec_.width)));
  }

  std::shared_ptr<const backend::Graph> build() {
    b_.group(backend::GroupKind::embed);
    const WeightId table = matrix(spec_.type, spec_.width, spec_.vocabulary);
    if (spec_.repeat > 0) repeat_rows(bytes_.back());
    ValueId x = b_.embed(table, 1.5F);
    for (int i = 0; i < spec_.layers; ++i) x = layer(x, i);
    b_.group(backend::GroupKind::head);
    const ValueId hidden = b_.rms_norm(b_.gather_rows(x), vector(spec_.width), spec_.width, 1e-5F);
    const ValueId logits = b_.softcap(b_.matmul(hidden, table), 30.0F);
    return std::make_shared<const backend::Graph>(b_.finish(logits, hidden, spec_.vocabulary, 4096));
  }

  Spec spec_;
  std::mt19937 random_;
  graph::GraphBuilder b_{};
  std::vector<std::vector<std::byte>> bytes_{};
  std::shared_ptr<const backend::Graph> graph_{};
};

/// A program with memory to run it, and sequences with scrambled pages.
class Runner {
 public:
  Runner(const std::shared_ptr<backend::Backend>& device, const TestModel& model, int tokens, int sequences,
         KvType kv = KvType::f32)
      : graph_(model.graph()), page_size_(device->info().page_size) {
    backend::CompileOptions options;
    options.limits = {tokens * sequences, sequences, tokens * sequences};
    program_ = device->compile(graph_, model, options).value();
    workspace_ = program_->workspace().value();
    pages_each_ = tokens / page_size_ + 1;
    const std::vector<std::int32_t> counts(graph_->states.size(), pages_each_ * sequences);
    kv_ = program_->make_kv({kv, kv}, counts).value();
    // Pages of all sequences interleaved, in falling order: no two neighbours are adjacent.
    tables_.resize(static_cast<std::size_t>(sequences));
    for (int s = 0; s < sequences; ++s) {
      for (int i = 0; i < pages_each_; ++i) {
        tables_[static_cast<std::size_t>(s)].push_back((pages_each_ - 1 - i) * sequences + s);
      }
    }
  }

  /// One step: of each sequence some tokens, beginning at a position. Logits of all rows.
  struct Part {
    int sequence, start;
    std::vector<Token> tokens;
  };
  backend::Status step(const std::vector<Part>& parts, std::vector<float>& logits) {
    backend::StepOutputs outputs;
    outputs.kind = backend::OutputKind::logits;
    return step(parts, logits, outputs);
  }
  /// The best token of each row, of those whose bits are set.
  std::vector<std::int32_t> best(const std::vector<Part>& parts, std::span<const std::uint32_t> allowed = {}) {
    std::vector<float> none, scores(64);
    std::vector<std::int32_t> ids(64, -1);
    backend::StepOutputs outputs;
    outputs.kind = backend::OutputKind::arg_max;
    outputs.ids = ids;
    outputs.scores = scores;
    outputs.allowed = allowed;
    REQUIRE(step(parts, none, outputs).ok());
    return ids;
  }
  backend::Status step(const std::vector<Part>& parts, std::vector<float>& logits, backend::StepOutputs outputs) {
    std::vector<Token> tokens;
    std::vector<std::int32_t> positions, rows;
    std::vector<backend::SequenceRange> ranges;
    std::vector<backend::PageTable> tables;
    for (const Part& part : parts) {
      ranges.push_back(
          {static_cast<std::int32_t>(tokens.size()), static_cast<std::int32_t>(part.tokens.size()), part.start, 0});
      for (std::size_t i = 0; i < part.tokens.size(); ++i) {
        rows.push_back(static_cast<std::int32_t>(tokens.size()));
        tokens.push_back(part.tokens[i]);
        positions.push_back(part.start + static_cast<std::int32_t>(i));
      }
    }
    for (std::size_t g = 0; g < graph_->states.size(); ++g) {
      for (const Part& part : parts) {
        const auto& t = tables_[static_cast<std::size_t>(part.sequence)];
        tables.push_back({t.data(), static_cast<std::int32_t>(t.size())});
      }
    }
    const std::size_t width = static_cast<std::size_t>(graph_->vocabulary);
    logits.assign(tokens.size() * width, 0.0F);
    backend::StepBatch batch{tokens, positions, ranges, tables, rows};
    outputs.values = logits;
    return program_->run(batch, *kv_, *workspace_, outputs, stop_, nullptr);
  }

  /// The whole prompt of one sequence in chunks.
  std::vector<float> prompt(int sequence, const std::vector<Token>& tokens, std::size_t chunk) {
    std::vector<float> all, part;
    for (std::size_t i = 0; i < tokens.size(); i += chunk) {
      const std::size_t end = std::min(tokens.size(), i + chunk);
      const std::vector<Token> some(tokens.begin() + static_cast<std::ptrdiff_t>(i),
                                    tokens.begin() + static_cast<std::ptrdiff_t>(end));
      REQUIRE(step({{sequence, static_cast<int>(i), some}}, part).ok());
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  backend::StopFlag stop_{};

 private:
  std::shared_ptr<const backend::Graph> graph_;
  int page_size_, pages_each_ = 0;
  std::shared_ptr<const backend::Program> program_{};
  std::unique_ptr<backend::Workspace> workspace_{};
  std::unique_ptr<backend::KvStorage> kv_{};
  std::vector<std::vector<std::int32_t>> tables_{};
};

std::vector<Token> random_tokens(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Token> out(n);
  for (Token& t : out) t = static_cast<Token>(random() % 50);
  return out;
}

std::shared_ptr<backend::Backend> cpu(int threads, const char* isa = "auto") {
  return make_cpu_backend({threads, isa});
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<Spec> specs() {
  std::vector<Spec> out(12);
  out[1].type = WeightType::q4_1;
  out[1].heads = out[1].heads_kv = 2;
  out[1].bias = true;
  out[2].type = WeightType::f16;
  out[2].window = 40;
  out[2].cap = 20.0F;
  out[2].activation = backend::Activation::gelu_tanh;
  out[3].type = WeightType::q5_0;
  out[3].moe = true;
  out[3].sinks = true;
  out[3].activation = backend::Activation::swiglu_clip;
  out[4].type = WeightType::f32;
  out[4].moe = true;
  out[4].heads = 8;
  out[4].heads_kv = 1;
  out[5].type = WeightType::mxfp4;
  out[5].moe = true;
  out[6].post_norm = true;
  out[6].heads = out[6].heads_kv = 3;  // more panels of a head than a thread gets
  out[6].head = 64;
  out[7].fused = true;
  out[7].type = WeightType::q4_1;
  out[7].heads = out[7].heads_kv = 3;  // q, k and v are as wide as each other
  out[7].feed = 160;
  out[8].fused = true;
  out[8].moe = true;
  out[8].post_norm = true;
  out[9].heads = 8;  // two heads share a panel
  out[9].head = 24;
  out[11].type = WeightType::f16;
  out[11].moe = true;
  out[11].feed = 40;               // of five threads two have no part of it
  out[10].type = WeightType::f16;  // no number of heads is whole panels
  out[10].heads = 3;
  out[10].heads_kv = 1;
  out[10].head = 20;
  return out;
}

TEST_CASE("logits agree with the reference device") {
  const std::vector<Token> tokens = random_tokens(150, 21);
  for (const Spec& spec : specs()) {
    INFO("weights " << describe(spec.type).name << " moe " << spec.moe);
    const TestModel model(spec);
    const std::shared_ptr<backend::Backend> truth = device::make_reference_backend(std::make_shared<core::Memory>());
    const std::vector<float> expected = Runner(truth, model, 160, 1).prompt(0, tokens, 160);
    // Eight bits of activations; with experts, a choice of two that are nearly equal may fall the other way.
    const double limit = describe(spec.type).block_size == 1 ? 1e-4 : spec.moe ? 0.25 : 0.1;
    for (const char* isa : {"portable", "auto"}) {
      const std::vector<float> got = Runner(cpu(2, isa), model, 160, 1).prompt(0, tokens, 160);
      CHECK(llminfer::test::relative_difference(got, expected) < limit);
    }
  }
}

TEST_CASE("bits do not depend on chunks, threads, instruction set or company") {
  const std::vector<Token> tokens = random_tokens(150, 22), others = random_tokens(90, 23);
  for (const Spec& spec : specs()) {
    for (KvType kv : {KvType::f16, KvType::q8_0, KvType::bf16}) {
      INFO("weights " << describe(spec.type).name << " moe " << spec.moe << " kv " << to_string(kv));
      const TestModel model(spec);
      const std::vector<float> truth = Runner(cpu(1), model, 160, 1, kv).prompt(0, tokens, 150);
      for (std::size_t chunk : {1, 7, 64}) {
        REQUIRE(same_bits(Runner(cpu(2), model, 160, 1, kv).prompt(0, tokens, chunk), truth));
      }
      REQUIRE(same_bits(Runner(cpu(5), model, 160, 1, kv).prompt(0, tokens, 3), truth));  // heads cut among threads
      // Where bf16 is the default, attention multiplies in it: other bits than floats have.
      if (kv != cpu(1)->info().default_kv || kv != KvType::bf16) {
        REQUIRE(same_bits(Runner(cpu(3, "portable"), model, 160, 1, kv).prompt(0, tokens, 150), truth));
      }
      Runner batch(cpu(2), model, 160, 3, kv);
      std::vector<float> logits;
      const std::vector<Token> head(tokens.begin(), tokens.begin() + 60), rest(tokens.begin() + 60, tokens.end());
      REQUIRE(batch.step({{2, 0, others}, {1, 0, head}}, logits).ok());
      REQUIRE(std::memcmp(logits.data() + 90 * 50, truth.data(), 60 * 50 * sizeof(float)) == 0);
      REQUIRE(batch.step({{0, 0, others}, {1, 60, rest}, {2, 90, {3}}}, logits).ok());
      REQUIRE(std::memcmp(logits.data() + 90 * 50, truth.data() + 60 * 50, 90 * 50 * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("bits do not depend on which thread comes to what first") {
  Spec spec;  // so large that threads take their shares in several parts, and then those of others
  spec.width = 512;
  spec.feed = 2048;
  spec.vocabulary = 8000;
  spec.layers = 1;
  const std::vector<Token> tokens = random_tokens(200, 28);
  for (bool moe : {false, true}) {
    spec.moe = moe;
    const TestModel model(spec);
    Runner alone(cpu(1), model, 200, 1);
    for (std::size_t count : {1, 3, 64, 200}) {
      const std::vector<Runner::Part> parts{
          {0, 0, {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)}}};
      std::vector<float> truth, logits;
      REQUIRE(alone.step(parts, truth).ok());
      for (int threads : {2, 4}) {
        Runner runner(cpu(threads), model, 200, 1);
        for (int i = 0; i < 5; ++i) {
          INFO(count << " rows, " << threads << " threads, moe " << moe);
          REQUIRE(runner.step(parts, logits).ok());
          REQUIRE(same_bits(logits, truth));
        }
      }
    }
  }
}

TEST_CASE("bits of long contexts do not depend on threads nor on where queries are cut") {
  const std::vector<Token> tokens = random_tokens(900, 24);
  Spec spec;
  spec.window = 300;
  spec.cap = 20.0F;
  spec.sinks = true;
  spec.heads = 6;
  for (int heads_kv : {1, 3}) {
    spec.heads_kv = heads_kv;
    const TestModel model(spec);
    const std::vector<float> truth = Runner(cpu(1), model, 900, 1, KvType::f16).prompt(0, tokens, 900);
    for (int threads : {2, 3, 7}) {
      INFO(heads_kv << " KV heads, " << threads << " threads");
      Runner runner(cpu(threads), model, 900, 2, KvType::f16);
      std::vector<float> logits;
      REQUIRE(runner.step({{1, 0, {tokens.begin(), tokens.begin() + 890}}}, logits).ok());
      REQUIRE(runner.step({{0, 0, {tokens.begin(), tokens.begin() + 200}}}, logits).ok());
      for (int at = 890; at < 900; ++at) {  // alone, and beside a shorter sequence
        std::vector<Runner::Part> parts{{1, at, {tokens[static_cast<std::size_t>(at)]}}};
        if (at % 2 == 0) parts.push_back({0, 200 + (at - 890) / 2, {7}});
        REQUIRE(runner.step(parts, logits).ok());
        REQUIRE(std::memcmp(logits.data(), truth.data() + at * 50, 50 * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("top-k and the sum of all are those of the row of logits, whoever found them") {
  const std::vector<Token> tokens = random_tokens(40, 26);
  // Of two threads one has less than the other, with seven some have one block; of 100 one thread has all.
  const auto [vocabulary, threads_of] =
      GENERATE(std::pair{1100, std::vector{1, 2, 7, 12}}, std::pair{100, std::vector{1, 3}});
  Spec spec;
  spec.vocabulary = vocabulary;
  spec.repeat = 30;
  const TestModel model(spec);
  const auto width = static_cast<std::size_t>(vocabulary), words = (width + 31) / 32;
  std::vector<float> truth_sums;
  for (int threads : threads_of) {
    for (const char* isa : {"portable", "auto"}) {
      Runner runner(cpu(threads, isa), model, 64, 1);
      for (std::size_t count : {1, 3, 40}) {
        const std::vector<Runner::Part> parts{
            {0, 0, {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)}}};
        std::vector<float> logits, none;
        REQUIRE(runner.step(parts, logits).ok());
        std::vector<std::uint32_t> few(words * count, 0U), most(words * count, ~0U);
        for (std::size_t i = 0; i < few.size(); i += 5) few[i] = 0x10001U << i % 15;
        for (std::size_t i = 0; i < most.size(); i += 3) most[i] = 0xffffU;
        for (const std::vector<std::uint32_t>& allowed : {std::vector<std::uint32_t>{}, most, few}) {
          for (int k : {1, 5, 40, 128, 200}) {
            if (k > vocabulary) continue;
            INFO(threads << " threads, " << isa << ", " << count << " rows, k " << k);
            const std::size_t n = count * static_cast<std::size_t>(k);
            std::vector<std::int32_t> ids(n, -1), expected_ids(n, -2);
            std::vector<float> scores(n), expected(n), sums(count), expected_sums(count);
            backend::StepOutputs outputs;
            outputs.kind = backend::OutputKind::top_k;
            outputs.k = k;
            outputs.allowed = allowed;
            outputs.ids = ids;
            outputs.scores = scores;
            outputs.log_sum_exp = sums;
            REQUIRE(runner.step(parts, none, outputs).ok());
            outputs.ids = expected_ids;
            outputs.scores = expected;
            outputs.log_sum_exp = expected_sums;
            for (std::size_t r = 0; r < count; ++r) {
              device::reduce_row(std::span(logits).subspan(r * width, width), r, outputs);
              REQUIRE((sums[r] == expected_sums[r] ||
                       std::fabs(sums[r] - expected_sums[r]) < 1e-5F));  // none allowed: -inf
            }
            REQUIRE(ids == expected_ids);
            REQUIRE(scores == expected);
            if (allowed.empty() && count == 3 && k == 40) {
              if (truth_sums.empty()) truth_sums = sums;
              REQUIRE(same_bits(sums, truth_sums));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("arg-max is the first of the best logits") {
  const std::vector<Token> tokens = random_tokens(40, 25);
  Spec spec;
  spec.repeat = 20;  // every logit is there two or three times, some in the columns of another thread
  const TestModel model(spec);
  for (int threads : {1, 2, 4}) {
    for (const char* isa : {"portable", "auto"}) {
      Runner runner(cpu(threads, isa), model, 64, 1);
      for (std::size_t count : {1, 5, 40}) {
        const std::vector<Runner::Part> parts{
            {0, 0, {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)}}};
        std::vector<float> logits;
        REQUIRE(runner.step(parts, logits).ok());
        const std::vector<std::int32_t> ids = runner.best(parts);
        for (std::size_t r = 0; r < count; ++r) {
          const auto row = logits.begin() + static_cast<std::ptrdiff_t>(50 * r);
          REQUIRE(ids[r] == std::max_element(row, row + 50) - row);
          REQUIRE(ids[r] < 20);
        }
        std::vector<std::uint32_t> allowed(2 * count, ~0U);
        for (std::size_t r = 0; r < count; ++r) allowed[2 * r] &= ~(1U << ids[r]);
        const std::vector<std::int32_t> others = runner.best(parts, allowed);
        for (std::size_t r = 0; r < count; ++r) REQUIRE(others[r] == ids[r] + 20);  // its next copy
      }
    }
  }
}

TEST_CASE("a layer has five barriers when rows are few, and one more with experts") {
  const auto memory = std::make_shared<core::Memory>();
  const auto barriers = [&](Spec spec, int layers, ScheduleKind kind) {
    spec.layers = layers;
    const Schedule schedule = make_schedule(*TestModel(spec).graph(), {8, 8, 8}, kind, memory);
    return std::count_if(schedule.phases.begin(), schedule.phases.end(), Schedule::has_barrier);
  };
  for (const Spec& spec : specs()) {
    INFO("weights " << describe(spec.type).name << " post norm " << spec.post_norm << " moe " << spec.moe << " fused "
                    << spec.fused);
    const auto a_layer = [&](ScheduleKind kind) { return barriers(spec, 3, kind) - barriers(spec, 2, kind); };
    const int expected = spec.moe ? 6 : 5;
    CHECK(a_layer(ScheduleKind::few_rows) == expected);
    CHECK(a_layer(ScheduleKind::many_rows) >= 8);  // one less where attention's output is not quantized
    CHECK(barriers(spec, 2, ScheduleKind::few_rows) == 2 * expected + 1);  // and one for the head
  }
}

TEST_CASE("slices are taken in parts of a product where they are whole panels, else as ops of their own") {
  const std::vector<Token> tokens = random_tokens(20, 27);
  const auto memory = std::make_shared<core::Memory>();
  Spec spec;
  spec.fused = true;
  spec.type = WeightType::f32;
  for (const int feed : {96, 88}) {
    for (const int head : {32, 24, 20}) {
      INFO("feed " << feed << " head " << head);
      spec.feed = feed;
      spec.head = head;
      const TestModel model(spec);
      const Schedule few = make_schedule(*model.graph(), {4, 4, 4}, ScheduleKind::few_rows, memory);
      const auto sliced = [&](StepCut cut) {
        return std::count_if(few.phases.begin(), few.phases.end(),
                             [&](const Phase& p) { return p.cut == cut && p.part_count > p.products; });
      };
      CHECK(sliced(StepCut::columns) == (feed == 96 ? 2 : 0));
      CHECK(sliced(StepCut::heads) == (head == 20 ? 0 : 2));
      const std::vector<float> truth = Runner(cpu(1), model, 32, 1).prompt(0, tokens, 20);
      for (int threads : {1, 2, 5}) REQUIRE(same_bits(Runner(cpu(threads), model, 32, 1).prompt(0, tokens, 3), truth));
    }
  }
}

TEST_CASE("memory is known before it is taken, and a step takes none") {
  const TestModel model(specs()[3]);
  const auto memory = std::make_shared<core::Memory>();
  const std::shared_ptr<backend::Backend> device = make_cpu_backend({2, "auto"}, memory);
  backend::CompileOptions options;
  options.limits = {64, 2, 64};
  const backend::MemoryNeeds needs = device->plan(*model.graph(), options.limits, {KvType::f16, KvType::f16}).value();
  const auto program = device->compile(model.graph(), model, options).value();
  REQUIRE(static_cast<double>(device->memory_used()) == Approx(static_cast<double>(needs.weights)).epsilon(0.02));
  const std::uint64_t before = device->memory_used();
  const auto workspace = program->workspace().value();
  REQUIRE(static_cast<double>(device->memory_used() - before) ==
          Approx(static_cast<double>(needs.workspace)).epsilon(0.02));
  Runner runner(device, model, 64, 1);
  const std::uint64_t count = memory->allocations();
  runner.prompt(0, random_tokens(64, 24), 13);
  REQUIRE(memory->allocations() == count);
}

TEST_CASE("steps that are wrong or stopped are errors") {
  const TestModel model(specs()[0]);
  Runner runner(cpu(2), model, 64, 1);
  std::vector<float> logits;
  REQUIRE(!runner.step({{0, 0, {50}}}, logits).ok());
  REQUIRE(!runner.step({{0, 0, {-1}}}, logits).ok());
  REQUIRE(!runner.step({{0, 4096, {1}}}, logits).ok());
  REQUIRE(!runner.step({{0, 500, {1}}}, logits).ok());
  runner.stop_.request();
  const backend::Status stopped = runner.step({{0, 0, {1, 2}}}, logits);
  REQUIRE(stopped.code == ErrorCode::cancelled);
  runner.stop_.clear();
  REQUIRE(runner.step({{0, 0, {1, 2}}}, logits).ok());
}

TEST_CASE("every allocation of compile may fail") {
  const TestModel model(specs()[1]);
  const auto memory = std::make_shared<core::Memory>();
  const std::shared_ptr<backend::Backend> device = make_cpu_backend({1, "auto"}, memory);
  for (int n = 1; n <= 100; ++n) {
    memory->fail_at(n);
    const auto program = device->compile(model.graph(), model, {});
    if (!memory->fail_pending()) {
      REQUIRE(!program);
      REQUIRE(program.error().code == ErrorCode::out_of_memory);
    }
    memory->fail_at(0);
    if (program) break;
    REQUIRE(n < 100);
    REQUIRE(device->memory_used() == 0);
  }
}

TEST_CASE("settings outside their range are errors") {
  for (const CpuSettings& settings : {CpuSettings{-1, "auto"}, CpuSettings{5000, "auto"}, CpuSettings{1, "mmx"}}) {
    try {
      make_cpu_backend(settings);
      FAIL("bad settings were taken");
    } catch (const Exception& e) {
      REQUIRE(e.error().code == ErrorCode::invalid_argument);
    }
  }
}

}  // namespace
}  // namespace llminfer::cpu::test
