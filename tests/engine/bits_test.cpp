// Promise: batching, chunking and threads change speed, never a bit of the logits (on the cpu device).
#include <thread>

#include "api/model_body.h"
#include "catch.h"
#include "engine_fixture.h"
#include "runtime/executor.h"

using namespace llminfer;
using tests::some_tokens;

namespace {

struct Subject {
  ModelSource source;
  int tokens;
};

std::vector<Subject> subjects() {
  std::vector<Subject> out{{ModelSource::memory(tests::tiny_bytes()), 100}};
  if (const auto file = tests::smollm2()) {
    out.push_back({ModelSource::file(*file), 70});
  } else {
    WARN("SmolLM2 is not in the model cache: only the tiny model is run");
  }
  return out;
}

Model open(const Subject& subject, int threads, int chunk) {
  LoadOptions options;
  options.devices = {tests::cpu(threads)};
  options.context = 256 < subject.tokens ? 0 : 128;
  options.max_step_tokens = chunk;
  options.max_sequences = 4;
  return Model::open(subject.source, options).value();
}

std::vector<float> logits_of(const Session& s) { return {s.logits().begin(), s.logits().end()}; }

std::vector<float> whole_run(const Model& model, const std::vector<Token>& tokens) {
  Session s = Session::open(model).value();
  s.append(tokens).value();
  s.prefill().value();
  return logits_of(s);
}

}  // namespace

TEST_CASE("chunks and threads change no bit") {
  for (const Subject& subject : subjects()) {
    const Model whole = open(subject, 1, 128);
    const std::vector<Token> tokens = some_tokens(subject.tokens, whole.info().vocabulary);
    const std::vector<float> expected = whole_run(whole, tokens);
    REQUIRE_FALSE(expected.empty());
    for (const int chunk : {1, 7, 64}) CHECK(whole_run(open(subject, 1, chunk), tokens) == expected);
    for (const int threads : {2, 3}) CHECK(whole_run(open(subject, threads, 128), tokens) == expected);
    CHECK(whole_run(open(subject, 2, 7), tokens) == expected);
  }
}

TEST_CASE("rewinding and appending again changes no bit") {
  for (const Subject& subject : subjects()) {
    const Model model = open(subject, 2, 32);
    const std::vector<Token> tokens = some_tokens(subject.tokens, model.info().vocabulary);
    const std::vector<float> expected = whole_run(model, tokens);
    Session s = Session::open(model).value();
    s.append(tokens).value();
    s.prefill().value();
    s.rewind(subject.tokens / 2 + 1).value();
    const std::vector<Token> detour = some_tokens(9, model.info().vocabulary, 5);
    s.append(detour).value();
    s.prefill().value();
    s.rewind(subject.tokens / 2 + 1).value();
    s.append(std::span(tokens).subspan(static_cast<std::size_t>(subject.tokens / 2 + 1))).value();
    s.prefill().value();
    CHECK(logits_of(s) == expected);
    s.rewind(subject.tokens - 1).value();
    s.append({&tokens.back(), 1}).value();
    s.prefill().value();
    CHECK(logits_of(s) == expected);
  }
}

TEST_CASE("two sessions of one model in two threads change no bit") {
  for (const Subject& subject : subjects()) {
    const Model model = open(subject, 2, 32);
    const std::vector<Token> first = some_tokens(subject.tokens, model.info().vocabulary, 1);
    const std::vector<Token> second = some_tokens(subject.tokens, model.info().vocabulary, 2);
    const std::vector<float> expected_first = whole_run(model, first);
    const std::vector<float> expected_second = whole_run(model, second);
    std::vector<float> got_second;
    std::thread other([&] { got_second = whole_run(model, second); });
    const std::vector<float> got_first = whole_run(model, first);
    other.join();
    CHECK(got_first == expected_first);
    CHECK(got_second == expected_second);
  }
}

TEST_CASE("company in the batch changes no bit") {
  for (const Subject& subject : subjects()) {
    const Model model = open(subject, 2, 128);
    const Model::Body& body = *model.body();
    const auto vocabulary = static_cast<std::size_t>(model.info().vocabulary);
    std::vector<std::vector<Token>> prompts;
    std::vector<std::vector<float>> expected;
    for (std::uint32_t i = 0; i < 4; ++i) {
      prompts.push_back(some_tokens(20 + 17 * static_cast<int>(i), model.info().vocabulary, i + 1));
      expected.push_back(whole_run(model, prompts.back()));
    }
    runtime::PoolOptions options;
    options.program = body.program;
    options.graph = body.graph;
    options.limits = body.limits;
    options.format = body.format;
    options.page_size = body.page_size;
    options.pages.assign(body.graph->states.size(), 64);
    const auto pool = std::make_shared<runtime::Pool>(std::move(options));
    std::vector<std::unique_ptr<runtime::Sequence>> sequences;
    for (const std::vector<Token>& prompt : prompts) {
      sequences.push_back(std::make_unique<runtime::Sequence>(pool, 128));
      REQUIRE(sequences.back()->append(prompt).kind == runtime::Shortage::Kind::none);
    }
    // Uneven shares, so that prefill chunks and single tokens of different sequences meet in a step.
    std::vector<float> rows(4 * vocabulary);
    std::vector<std::vector<float>> got(4);
    for (int step = 0;; ++step) {
      runtime::StepPlan plan;
      std::vector<std::size_t> last;
      for (std::size_t i = 0; i < 4; ++i) {
        const int left = sequences[i]->size() - sequences[i]->computed();
        const int wanted = (step + static_cast<int>(i)) % 3 == 0 ? 1 : 11 + 3 * static_cast<int>(i);
        const int count = std::min(left, wanted);
        if (count == 0) continue;
        plan.items.push_back(
            {sequences[i].get(), count, count == left ? runtime::RowsWanted::last : runtime::RowsWanted::none});
        if (count == left) last.push_back(i);
      }
      if (plan.items.empty()) break;
      backend::StepOutputs outputs;
      outputs.values = rows;
      REQUIRE(pool->executor().run(*pool, plan, outputs, backend::StopFlag()).ok());
      for (std::size_t k = 0; k < last.size(); ++k) {
        const auto row = rows.begin() + static_cast<std::ptrdiff_t>(k * vocabulary);
        got[last[k]].assign(row, row + static_cast<std::ptrdiff_t>(vocabulary));
      }
    }
    for (std::size_t i = 0; i < 4; ++i) CHECK(got[i] == expected[i]);
  }
}

TEST_CASE("two models on two devices in one process") {
  const Model a = tests::tiny_model(tests::cpu());
  const Model b = tests::tiny_model(Device::reference().value());
  const std::vector<Token> tokens = some_tokens(30, 16);
  const std::vector<float> on_cpu = whole_run(a, tokens);
  const std::vector<float> on_reference = whole_run(b, tokens);
  REQUIRE(on_cpu.size() == on_reference.size());
  for (std::size_t i = 0; i < on_cpu.size(); ++i) CHECK(on_cpu[i] == Approx(on_reference[i]).margin(0.1));
  CHECK(whole_run(a, tokens) == on_cpu);
}
