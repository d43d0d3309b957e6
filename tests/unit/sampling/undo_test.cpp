// Fork and rewind: a chain's state is a value.
#include "catch.h"
#include "fixtures.h"

using namespace sampling_test;

namespace {

constexpr int vocabulary = 200;

std::vector<SamplingOptions> stateful() {
  return {
      {.chain = {Mirostat{3, 0.5f, 50}}, .seed = 7},
      {.chain = {MirostatV2{3, 0.5f}}, .seed = 7},
      {.chain = {MinP{0.02f}, AdaptiveP{0.3f, 0.8f}}, .seed = 7},
      {.chain = {RepetitionPenalty{}, Dry{.allowed_length = 0}, PresencePenalty{1}, Temperature{1.5f}}, .seed = 7},
      {.chain = {Temperature{2}, Xtc{0.5f, 0.01f}}, .seed = 7, .banned_strings = {"ab", "c", "xyz"}},
  };
}

// A sequence being generated; logits depend on the position and the last token, as a model's do.
struct Sequence {
  SamplerChain chain;
  std::vector<Token> history{1, 2, 3};

  void step(SamplerWorkspace& workspace) {
    const auto row = static_cast<std::uint32_t>(history.size() * 1000) + static_cast<std::uint32_t>(history.back());
    Draw draw;
    REQUIRE(chain.sample(workspace, logits_row(row, vocabulary), history, draw) == SampleStatus::ok);
    history.push_back(draw.token);
    const Accepted accepted = chain.accept(history);
    REQUIRE(accepted.status == SampleStatus::ok);
    history.resize(history.size() - static_cast<std::size_t>(accepted.take_back));
  }
  void run_to(std::size_t length, SamplerWorkspace& workspace) {
    while (history.size() < length) step(workspace);
  }
};

}  // namespace

TEST_CASE("After a rollback the same tokens are drawn") {
  const Letters letters;
  SamplerWorkspace workspace(vocabulary);
  for (const SamplingOptions& options : stateful()) {
    Sequence sequence{SamplerChain(options, setup_for(vocabulary, &letters))};
    sequence.run_to(40, workspace);
    const auto expected = sequence.history;
    for (const std::size_t length : {39, 30, 10, 3}) {
      REQUIRE(sequence.chain.rollback(static_cast<int>(sequence.history.size() - length)) == SampleStatus::ok);
      sequence.history.resize(length);
      CHECK(sequence.chain.new_tokens() == static_cast<int>(length) - 3);
      sequence.run_to(40, workspace);
      CHECK(sequence.history == expected);
    }
  }
}

TEST_CASE("A rollback in two parts is one rollback") {
  SamplerWorkspace workspace(vocabulary);
  Sequence sequence{SamplerChain({.chain = {MirostatV2{3, 0.5f}}}, setup_for(vocabulary))};
  sequence.run_to(30, workspace);
  const auto expected = sequence.history;
  CHECK(sequence.chain.rollback(4) == SampleStatus::ok);
  CHECK(sequence.chain.rollback(0) == SampleStatus::ok);
  CHECK(sequence.chain.rollback(13) == SampleStatus::ok);
  sequence.history.resize(13);
  sequence.run_to(30, workspace);
  CHECK(sequence.history == expected);
}

TEST_CASE("A copy draws the same and lives on its own") {
  const Letters letters;
  SamplerWorkspace workspace(vocabulary);
  for (const SamplingOptions& options : stateful()) {
    Sequence sequence{SamplerChain(options, setup_for(vocabulary, &letters))};
    sequence.run_to(20, workspace);
    Sequence fork{sequence.chain, sequence.history};
    Sequence kept{sequence.chain, sequence.history};
    sequence.run_to(40, workspace);
    fork.run_to(40, workspace);
    CHECK(fork.history == sequence.history);
    REQUIRE(fork.chain.rollback(25) == SampleStatus::ok);  // further back than where it was forked
    fork.history.resize(15);
    fork.run_to(40, workspace);
    CHECK(fork.history == sequence.history);
    kept.run_to(40, workspace);
    CHECK(kept.history == sequence.history);
  }
}

TEST_CASE("Sampling twice without accepting changes nothing") {
  SamplerWorkspace workspace(vocabulary);
  SamplerChain chain({.chain = {Mirostat{}}}, setup_for(vocabulary));
  const std::vector<Token> history{1};
  Draw first;
  Draw second;
  REQUIRE(chain.sample(workspace, logits_row(5, vocabulary), history, first) == SampleStatus::ok);
  REQUIRE(chain.sample(workspace, logits_row(5, vocabulary), history, second) == SampleStatus::ok);
  CHECK(first.token == second.token);
  CHECK(first.sampled_logprob == second.sampled_logprob);
}

TEST_CASE("A forced token does not move the surprise") {
  SamplerWorkspace workspace(vocabulary);
  Sequence plain{SamplerChain({.chain = {MirostatV2{3, 1.0f}}}, setup_for(vocabulary))};
  Sequence forced{plain.chain, plain.history};
  Draw draw;
  REQUIRE(forced.chain.sample(workspace, logits_row(1, vocabulary), forced.history, draw) == SampleStatus::ok);
  forced.history.push_back((draw.token + 1) % vocabulary);  // not the one drawn
  forced.chain.accept(forced.history);
  plain.history = forced.history;
  plain.chain.accept(plain.history);  // nothing drawn at all
  plain.run_to(20, workspace);
  forced.run_to(20, workspace);
  CHECK(plain.history == forced.history);
}
