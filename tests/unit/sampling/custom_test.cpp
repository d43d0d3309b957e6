#include <limits>
#include <stdexcept>

#include "catch.h"
#include "fixtures.h"

using namespace sampling_test;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

// Forbids the ids below a level that rises with each accepted token.
class Rising final : public Sampler {
 public:
  void apply(std::span<Candidate> candidates, const SamplerStep& step) override {
    if (step.new_tokens != level_) throw std::logic_error("count");
    for (Candidate& c : candidates) {
      if (c.id < level_) c.logit = -inf;
    }
  }
  void accept(Token) override { ++level_; }
  void rollback(int count) override { level_ -= count; }
  std::unique_ptr<Sampler> clone() const override { return std::make_unique<Rising>(*this); }

 private:
  int level_ = 0;
};

// Does to the candidates what a function says.
class Doing final : public Sampler {
 public:
  using Action = void (*)(std::span<Candidate>, const SamplerStep&);
  explicit Doing(Action action) : action_(action) {}
  void apply(std::span<Candidate> candidates, const SamplerStep& step) override { action_(candidates, step); }
  std::unique_ptr<Sampler> clone() const override { return std::make_unique<Doing>(*this); }

 private:
  Action action_;
};

SampleStatus status_with(Doing::Action action, Draw& draw) {
  SamplingOptions options{.chain = {Temperature{0.5f}, Custom{std::make_shared<Doing>(action)}}};
  SamplerWorkspace workspace(3);
  SamplerChain chain(options, setup_for(3));
  return chain.sample(workspace, std::vector<float>{1, 3, 2}, std::vector<Token>{0, 1}, draw);
}

// Allows one token after the other: 0, 1, 2, ... until `length`.
class Counting final : public MaskSource {
 public:
  explicit Counting(int length) : length_(length) {}
  bool fill(std::span<std::uint64_t> bits) override {
    if (next_ >= length_) return false;
    for (auto& word : bits) word = 0;
    bits[static_cast<std::size_t>(next_) / 64] = std::uint64_t{1} << (next_ % 64);
    return true;
  }
  void accept(Token) override { ++next_; }
  void rollback(int count) override { next_ -= count; }
  bool complete() const override { return next_ >= length_; }
  std::unique_ptr<MaskSource> clone() const override { return std::make_unique<Counting>(*this); }

 private:
  int next_ = 0;
  int length_;
};

}  // namespace

TEST_CASE("A caller's sampler is cloned, told of tokens and rolled back") {
  const auto prototype = std::make_shared<Rising>();
  const SamplingOptions options{.chain = {Custom{prototype}, Greedy{}}};
  SamplerWorkspace workspace(100);
  SamplerChain chain(options, setup_for(100));
  std::vector<float> logits(100);
  for (std::size_t i = 0; i < 100; ++i) logits[i] = -static_cast<float>(i);
  std::vector<Token> history{50};
  const auto step = [&](SamplerChain& which) {
    Draw draw;
    REQUIRE(which.sample(workspace, logits, history, draw) == SampleStatus::ok);
    return draw.token;
  };
  for (Token expected = 0; expected < 5; ++expected) {
    CHECK(step(chain) == expected);
    history.push_back(expected);
    chain.accept(history);
  }
  SamplerChain fork(chain);
  chain.rollback(3);
  history.resize(3);
  CHECK(step(chain) == 2);
  CHECK(step(fork) == 5);
  SamplerChain fresh(options, setup_for(100));  // the prototype never changed
  history.resize(1);
  CHECK(step(fresh) == 0);
}

TEST_CASE("A caller's sampler sees logits with temperatures applied") {
  Draw draw;
  const auto check = [](std::span<Candidate> candidates, const SamplerStep& step) {
    const bool right = candidates.size() == 3 && candidates[1].logit == 6.0f && step.position == 2 &&
                       step.history.size() == 2 && step.uniform == StepRandom{0, 0, 2, 0}.uniform(2);
    if (right) candidates[1].logit = candidates[2].logit = -inf;
  };
  CHECK(status_with(check, draw) == SampleStatus::ok);
  CHECK(draw.token == 0);
  CHECK(draw.sampled_logprob == 0.0f);
}

TEST_CASE("A caller's sampler that misbehaves ends the request") {
  Draw draw;
  CHECK(status_with([](auto, const auto&) { throw 5; }, draw) == SampleStatus::callback_failed);
  CHECK(status_with([](auto, const auto&) { throw std::bad_alloc(); }, draw) == SampleStatus::callback_failed);
  CHECK(status_with([](auto c, const auto&) { c[0].id = 77; }, draw) == SampleStatus::callback_failed);
  CHECK(status_with([](auto c, const auto&) { c[2].id = 3; }, draw) == SampleStatus::callback_failed);
  CHECK(status_with([](auto c, const auto&) { c[0].logit = inf; }, draw) == SampleStatus::not_a_number);
  CHECK(status_with([](auto c, const auto&) { c[1].logit = inf - inf; }, draw) == SampleStatus::not_a_number);
  const auto all = [](std::span<Candidate> candidates, const SamplerStep&) {
    for (Candidate& c : candidates) c.logit = -inf;
  };
  CHECK(status_with(all, draw) == SampleStatus::nothing_left);
}

TEST_CASE("The mask comes first and follows the text") {
  SamplingOptions options{.temperature = 1.0f, .top_k = 1, .mask = std::make_shared<Counting>(80)};
  SamplerWorkspace workspace(130);
  SamplerChain chain(options, setup_for(130));
  auto logits = logits_row(3, 130);
  logits[129] = 30.0f;
  std::vector<Token> history{5};
  const auto next = [&] {
    Draw draw;
    REQUIRE(chain.sample(workspace, logits, history, draw) == SampleStatus::ok);
    history.push_back(draw.token);
    chain.accept(history);
    return draw.token;
  };
  for (Token expected = 0; expected < 80; ++expected) {
    CHECK(!chain.complete());
    CHECK(next() == expected);
  }
  CHECK(chain.complete());
  CHECK(next() == 129);
  chain.rollback(11);
  history.resize(history.size() - 11);
  CHECK(!chain.complete());
  CHECK(next() == 70);
}

TEST_CASE("A mask that allows nothing, or only what is banned") {
  SamplerWorkspace workspace(10);
  Draw draw;
  SamplingOptions options{.banned_tokens = {0}, .mask = std::make_shared<Counting>(10)};
  SamplerChain banned(options, setup_for(10));
  CHECK(banned.sample(workspace, logits_row(1, 10), {}, draw) == SampleStatus::nothing_left);
  auto logits = logits_row(1, 10);
  logits[0] = -inf;
  SamplerChain removed({.mask = std::make_shared<Counting>(10)}, setup_for(10));
  CHECK(removed.sample(workspace, logits, {}, draw) == SampleStatus::nothing_left);
}
