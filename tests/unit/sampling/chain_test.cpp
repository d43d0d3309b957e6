#include <algorithm>
#include <cmath>
#include <limits>

#include "catch.h"
#include "fixtures.h"

using namespace sampling_test;

namespace {
constexpr float inf = std::numeric_limits<float>::infinity();
}

TEST_CASE("Log-probabilities of the raw and of the sampled distribution") {
  // x / 0.5 = 2 0 -2 -4, so p = .865 .117 .016 .002: top-p 0.9 keeps two tokens.
  const std::vector<float> logits{1, 0, -1, -2};
  const double raw = std::log(std::exp(1.0) + 1 + std::exp(-1.0) + std::exp(-2.0));
  const double sampled = std::log(std::exp(2.0) + 1);
  const double first = std::exp(2.0 - sampled);
  bool seen[2] = {};
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const SamplingOptions simple{.temperature = 0.5f, .top_p = 0.9f, .seed = seed};
    const SamplingOptions chain{.chain = {Temperature{0.5f}, TopP{0.9f}}, .seed = seed};
    for (const auto& options : {simple, chain}) {
      const Draw draw = draw_once(options, logits);
      const float u = StepRandom{seed, 0, 0, 0}.uniform(0);
      REQUIRE(draw.token == (static_cast<double>(u) < first ? 0 : 1));
      seen[draw.token] = true;
      const double x = static_cast<double>(logits[static_cast<std::size_t>(draw.token)]);
      CHECK(draw.logprob == Approx(x - raw).epsilon(1e-6));
      CHECK(draw.sampled_logprob == Approx(2 * x - sampled).epsilon(1e-6));
    }
  }
  CHECK(seen[0]);
  CHECK(seen[1]);
  // The other order keeps three: p = .644 .237 .087 .032.
  bool third = false;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    third = third || draw_once({.chain = {TopP{0.9f}, Temperature{0.5f}}, .seed = seed}, logits).token == 2;
  }
  CHECK(third);
}

TEST_CASE("100,000 draws have the distribution's frequencies") {
  // Chi-square with 7 degrees of freedom: above 24.3 in one case of a thousand. The seeds are fixed.
  const std::vector<float> logits{0.5f, -1.0f, 2.0f, 0.0f, 1.0f, -0.5f, 1.5f, 0.25f};
  for (const bool dense : {true, false}) {
    SamplingOptions options{.chain = {Temperature{1.25f}}, .seed = 20};
    if (!dense) options.chain.push_back(MinP{1e-6f});  // cuts nothing, leaves a list
    SamplerWorkspace workspace(8);
    SamplerChain chain(options, setup_for(8));
    constexpr std::size_t draws = 100000;
    const std::vector<Token> history(draws, 0);
    double counts[8] = {};
    for (std::size_t i = 0; i < draws; ++i) {
      Draw draw;
      REQUIRE(chain.sample(workspace, logits, std::span(history).first(i), draw) == SampleStatus::ok);
      counts[draw.token] += 1;
    }
    double total = 0;
    for (const float x : logits) total += std::exp(static_cast<double>(x) / 1.25);
    double chi_square = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      const double expected = static_cast<double>(draws) * std::exp(static_cast<double>(logits[i]) / 1.25) / total;
      chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    CHECK(chi_square < 24.3);
  }
}

TEST_CASE("Sequences of one seed draw differently") {
  const auto logits = logits_row(1, 500);
  SamplerWorkspace workspace(500);
  int equal = 0;
  for (std::uint32_t sequence = 1; sequence < 50; ++sequence) {
    auto setup = setup_for(500);
    setup.sequence = sequence;
    SamplerChain chain({.temperature = 2.0f}, setup);
    Draw draw;
    REQUIRE(chain.sample(workspace, logits, {}, draw) == SampleStatus::ok);
    equal += draw.token == draw_once({.temperature = 2.0f}, logits).token;
  }
  CHECK(equal < 10);
}

TEST_CASE("The default is greedy, and setting a cut turns to temperature 1") {
  const auto logits = logits_row(4, 300);
  const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
  const Draw greedy = draw_once({}, logits);
  CHECK(greedy.token == best);
  CHECK(greedy.sampled_logprob == 0.0f);
  CHECK(draw_once({.temperature = 0.0f, .top_p = 0.9f}, logits).token == best);
  CHECK(draw_once({.repetition_penalty = 1.1f}, logits).sampled_logprob == 0.0f);
  for (const SamplingOptions& options :
       {SamplingOptions{.top_k = 50}, SamplingOptions{.top_p = 0.99f}, SamplingOptions{.min_p = 0.001f}}) {
    CHECK(draw_once(options, logits).sampled_logprob < 0.0f);
  }
}

TEST_CASE("Temperature 0 takes the lowest id of equals") {
  CHECK(draw_once({.temperature = 0.0f}, {1, 3, 2, 3, 3}).token == 1);
  CHECK(draw_once({.chain = {TopK{4}, Temperature{0}}}, {1, 3, 2, 3, 3}).token == 1);
  CHECK(draw_once({.chain = {TopK{1}}}, {1, 3, 2, 3, 3}).token == 1);
}

TEST_CASE("The k best logits alone give the token that the whole row gives") {
  const std::vector<std::vector<SamplerSpec>> chains{{TopK{40}},
                                                     {Temperature{0.7f}, TopK{40}, TopP{0.9f}, MinP{0.05f}},
                                                     {Temperature{1.5f}, Temperature{0.5f}, TopK{7}, Temperature{3.0f}},
                                                     {TopK{1}},
                                                     {TopK{299}},
                                                     {TopK{5}, Greedy{}},
                                                     {Greedy{}},
                                                     {Temperature{0.7f}, Greedy{}, TopP{0.5f}}};
  SamplerWorkspace workspace(300), other(300);
  for (const auto& links : chains) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      std::vector<float> logits = logits_row(static_cast<std::uint32_t>(seed), 300);
      for (std::size_t i = 0; i < 300; i += 4) logits[i] = logits[i / 2];  // equals
      if (seed % 3 == 0) std::fill(logits.begin() + 4, logits.end(), -inf);
      const SamplingOptions options{.chain = links, .seed = seed, .banned_tokens = {3, 17}};
      SamplerChain::Setup setup = setup_for(300);
      setup.logprobs = false;
      SamplerChain whole(options, setup), top(options, setup);
      const auto k = static_cast<std::size_t>(top.wants_top_alone());
      REQUIRE(k > 0);
      Draw expected, got;
      REQUIRE(whole.sample(workspace, logits, {}, expected) == SampleStatus::ok);
      std::vector<Token> ids(300);
      for (std::size_t i = 0; i < 300; ++i) ids[i] = static_cast<Token>(i);
      for (const Token banned : {3, 17}) logits[static_cast<std::size_t>(banned)] = -inf;
      std::stable_sort(ids.begin(), ids.end(), [&](Token a, Token b) {
        return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
      });
      std::vector<float> scores;
      for (const Token id : ids) scores.push_back(logits[static_cast<std::size_t>(id)]);
      REQUIRE(top.sample_top(other, std::span(ids).first(k), std::span(scores).first(k), {}, got) == SampleStatus::ok);
      REQUIRE(got.token == expected.token);
      REQUIRE(got.sampled_logprob == expected.sampled_logprob);
    }
  }
}

TEST_CASE("What needs the k best logits alone") {
  const auto wants = [](const SamplingOptions& options, bool logprobs = false) {
    SamplerChain::Setup setup = setup_for(80);
    setup.logprobs = logprobs;
    return SamplerChain(options, setup).wants_top_alone();
  };
  CHECK(wants({.top_k = 40}) == 40);
  CHECK(wants({.top_k = 79}) == 79);
  CHECK(wants({.top_k = 80}) == 0);  // keeps all
  CHECK(wants({.temperature = 0.7f, .top_k = 40, .top_p = 0.9f, .banned_tokens = {1}}) == 40);
  CHECK(wants({.top_k = 40}, true) == 0);
  CHECK(wants({}) == 1);
  CHECK(wants({}, true) == 0);
  CHECK(wants({.temperature = 0.0f, .banned_tokens = {1}, .min_new_tokens = 3}) == 1);
  CHECK(wants({.temperature = 0.0f, .repetition_penalty = 1.1f}) == 0);
  CHECK(wants({.logit_bias = {{1, 2.0f}}}) == 0);
  CHECK(wants({.temperature = 0.7f}) == 0);
  CHECK(wants({.chain = {Temperature{0.7f}, Greedy{}}}) == 1);
  CHECK(wants({.chain = {TopK{4}, Greedy{}}}) == 4);
  CHECK(wants({.top_p = 0.9f}) == 0);
  CHECK(wants({.top_k = 40, .repetition_penalty = 1.1f}) == 0);
  CHECK(wants({.chain = {TopP{0.9f}, TopK{40}}}) == 0);
  CHECK(wants({.chain = {TopK{40}, TopP{0.9f}}}) == 40);

  SamplerChain chain({.top_k = 2}, setup_for(8));
  SamplerWorkspace workspace(8);
  const std::vector<Token> ids{3, 1};
  Draw draw;
  const auto status = [&](float first) {
    return chain.sample_top(workspace, ids, std::vector<float>{first, -inf}, {}, draw);
  };
  CHECK(status(1) == SampleStatus::ok);
  CHECK(draw.token == 3);
  CHECK(draw.sampled_logprob == 0);
  CHECK(status(-inf) == SampleStatus::nothing_left);
  CHECK(status(inf) == SampleStatus::infinite);
  CHECK(status(std::numeric_limits<float>::quiet_NaN()) == SampleStatus::not_a_number);
}

TEST_CASE("What is forbidden of the best logits") {
  CHECK(!SamplerChain({}, setup_for(40)).forbids());
  SamplerChain chain({.banned_tokens = {1, 33}}, setup_for(40));
  CHECK(chain.forbids());
  std::vector<std::uint32_t> allowed(2);
  chain.fill_allowed(allowed);
  CHECK(allowed == std::vector<std::uint32_t>{~2U, ~2U});
}

TEST_CASE("Very small and very large temperatures") {
  const std::vector<float> logits{1, 2, 3, 2};
  CHECK(draw_once({.temperature = 1e-30f}, logits).token == 2);
  CHECK(draw_once({.temperature = 1e-45f, .top_k = 3}, logits).token == 2);
  const Draw flat = draw_once({.temperature = 1e6f}, logits);
  CHECK(flat.sampled_logprob == Approx(std::log(0.25)).epsilon(1e-4));
}

TEST_CASE("Rows that cannot be sampled are statuses") {
  SamplerWorkspace workspace(4);
  SamplerChain chain({.temperature = 1.0f}, setup_for(4));
  Draw draw;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(chain.sample(workspace, std::vector<float>{1, nan, 2, 3}, {}, draw) == SampleStatus::not_a_number);
  CHECK(chain.sample(workspace, std::vector<float>{1, inf, 2, 3}, {}, draw) == SampleStatus::infinite);
  CHECK(chain.sample(workspace, std::vector<float>(4, -inf), {}, draw) == SampleStatus::nothing_left);
  CHECK(chain.sample(workspace, std::vector<float>(3, 0), {}, draw) == SampleStatus::nothing_left);
  CHECK(error_code(SampleStatus::not_a_number) == ErrorCode::invalid_logits);
  CHECK(error_code(SampleStatus::nothing_left) == ErrorCode::invalid_logits);
  CHECK(error_code(SampleStatus::callback_failed) == ErrorCode::callback_failed);
  CHECK(chain.sample(workspace, std::vector<float>{-inf, -inf, 2, -inf}, {}, draw) == SampleStatus::ok);
  CHECK(draw.token == 2);
}

TEST_CASE("Every sampler survives having nothing left") {
  const std::vector<SamplerSpec> all{Greedy{},         Temperature{0.5f},   DynamicTemperature{},
                                     TopK{2},          TopP{0.5f},          MinP{},
                                     TypicalP{0.5f},   TopNSigma{},         Xtc{1, 0.1f},
                                     Dry{.breakers{}}, RepetitionPenalty{}, PresencePenalty{1},
                                     NoRepeatNgram{2}, FrequencyPenalty{1}, Mirostat{},
                                     MirostatV2{},     AdaptiveP{}};
  for (const SamplerSpec& spec : all) {
    CAPTURE(spec.index());
    SamplingOptions options{.chain = {spec}, .banned_tokens = {0, 1, 2}};
    SamplerWorkspace workspace(3);
    SamplerChain chain(options, setup_for(3));
    Draw draw;
    const std::vector<Token> history{0, 1, 0, 1, 0};
    CHECK(chain.sample(workspace, std::vector<float>{1, 2, 3}, history, draw) == SampleStatus::nothing_left);
  }
}

TEST_CASE("The most probable tokens on request") {
  auto setup = setup_for(5);
  setup.top_logprobs = 3;
  SamplerWorkspace workspace(5);
  SamplerChain chain({.banned_tokens = {1}}, setup);
  const std::vector<float> logits{0, 4, 2, 4, -inf};
  Draw draw;
  REQUIRE(chain.sample(workspace, logits, {}, draw) == SampleStatus::ok);
  CHECK(draw.token == 3);
  const double normalizer = std::log(2 * std::exp(4.0) + std::exp(2.0) + 1);
  REQUIRE(draw.top.size() == 3);
  CHECK(draw.top[0].token == 1);  // of the raw distribution: bans do not count
  CHECK(draw.top[1].token == 3);
  CHECK(draw.top[2].token == 2);
  CHECK(draw.top[2].logprob == Approx(2 - normalizer).epsilon(1e-6));
  CHECK(draw.logprob == draw.top[1].logprob);
}

TEST_CASE("Log-probabilities that nobody asked for are not computed") {
  auto setup = setup_for(3);
  setup.logprobs = false;
  SamplerWorkspace workspace(3);
  SamplerChain chain({}, setup);
  Draw draw;
  REQUIRE(chain.sample(workspace, std::vector<float>{1, 2, 3}, {}, draw) == SampleStatus::ok);
  CHECK(std::isnan(draw.logprob));
}

TEST_CASE("Biases and bans") {
  CHECK(draw_once({.logit_bias = {{0, 5.0f}}}, {1, 3, 2}).token == 0);
  CHECK(draw_once({.logit_bias = {{0, 3.0f}, {0, 3.0f}}}, {1, 3, 2}).token == 0);
  CHECK(draw_once({.logit_bias = {{1, -inf}}}, {1, 3, 2}).token == 2);
  CHECK(draw_once({.banned_tokens = {1, 2}}, {1, 3, 2}).token == 0);
  CHECK(draw_once({.logit_bias = {{1, 100.0f}}, .banned_tokens = {1}}, {1, 3, 2}).token == 2);
}

TEST_CASE("Stop tokens wait for the minimum of new tokens") {
  auto setup = setup_for(3);
  const std::vector<Token> stop{1};
  setup.stop_tokens = stop;
  SamplerWorkspace workspace(3);
  SamplerChain chain({.min_new_tokens = 2}, setup);
  std::vector<Token> history{0};
  std::vector<Token> drawn;
  for (int i = 0; i < 3; ++i) {
    Draw draw;
    REQUIRE(chain.sample(workspace, std::vector<float>{1, 3, 2}, history, draw) == SampleStatus::ok);
    drawn.push_back(draw.token);
    history.push_back(draw.token);
    chain.accept(history);
  }
  CHECK(drawn == std::vector<Token>{2, 2, 1});
  REQUIRE(chain.rollback(2) == SampleStatus::ok);
  history.resize(2);
  Draw draw;
  REQUIRE(chain.sample(workspace, std::vector<float>{1, 3, 2}, history, draw) == SampleStatus::ok);
  CHECK(draw.token == 2);
}
