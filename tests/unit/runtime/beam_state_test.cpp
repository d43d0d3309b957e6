// Beam search over rows that a hash makes, against the search of everything.
#include "runtime/beam_state.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "catch.h"

using namespace llminfer;
using runtime::BeamHypothesis;
using runtime::BeamSetup;
using runtime::BeamState;

namespace {

constexpr int vocabulary = 5;
constexpr Token end_token = 4;

using Path = std::vector<Token>;

std::vector<float> logits_of(const Path& path, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (const Token t : path) random.seed(static_cast<std::uint32_t>(random() * 31 + static_cast<unsigned>(t) + 1));
  std::vector<float> out;
  for (int i = 0; i < vocabulary; ++i) out.push_back(static_cast<float>(random() % 10000) / 2500.0F);
  return out;
}

std::vector<double> logprobs_of(const Path& path, std::uint32_t seed) {
  const std::vector<float> logits = logits_of(path, seed);
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  std::vector<double> out;
  for (const float x : logits) out.push_back(x - std::log(sum));
  return out;
}

struct Found {
  Path path;
  double logprob;
  double score;
};

/// Every continuation of up to `longest` tokens, best first.
void search_all(const Path& path, double logprob, const BeamSetup& setup, std::uint32_t seed, std::vector<Found>& out) {
  const std::vector<double> p = logprobs_of(path, seed);
  for (Token t = 0; t < vocabulary; ++t) {
    if (std::find(setup.banned.begin(), setup.banned.end(), t) != setup.banned.end()) continue;
    Path next = path;
    next.push_back(t);
    const double l = logprob + p[static_cast<std::size_t>(t)];
    const bool ends = std::find(setup.end_of_text.begin(), setup.end_of_text.end(), t) != setup.end_of_text.end();
    if (ends || next.size() == setup.max_tokens) {
      out.push_back({next, l, l / std::pow(static_cast<double>(next.size()), setup.length_penalty)});
    } else {
      search_all(next, l, setup, seed, out);
    }
  }
}

/// Runs the search as an engine does; rows arrive in a random order.
void run(BeamState& state, std::uint32_t seed, int most_steps = 1 << 20) {
  std::mt19937 random(seed);
  std::map<std::size_t, Path> paths{{0, {}}};
  for (int step = 0; !state.over() && step < most_steps; ++step) {
    std::vector<std::size_t> beams;
    for (const auto& [beam, path] : paths) {
      REQUIRE(state.wants_row(beam));
      beams.push_back(beam);
    }
    REQUIRE(beams.size() == state.active());
    std::shuffle(beams.begin(), beams.end(), random);
    for (const std::size_t beam : beams) {
      REQUIRE_FALSE(state.complete());
      REQUIRE(state.take_row(beam, logits_of(paths[beam], seed)));
      REQUIRE_FALSE(state.wants_row(beam));
    }
    REQUIRE(state.complete());
    std::map<std::size_t, Path> next;
    const auto moves = state.advance();
    for (std::size_t b = 0; b < moves.size(); ++b) {
      if (!moves[b].active) continue;
      REQUIRE(moves[moves[b].parent].active);
      REQUIRE(moves[moves[b].parent].parent == moves[b].parent);  // a parent stays in its place
      next[b] = paths.at(moves[b].parent);
      next[b].push_back(moves[b].token);
    }
    paths = std::move(next);
  }
}

BeamSetup setup_of(std::size_t beams, std::size_t results, double penalty) {
  BeamSetup setup;
  setup.beams = beams;
  setup.results = results;
  setup.max_tokens = 4;
  setup.length_penalty = penalty;
  setup.vocabulary = vocabulary;
  setup.end_of_text = {end_token};
  return setup;
}

}  // namespace

TEST_CASE("a beam wide enough finds what the search of everything finds") {
  for (const double penalty : {0.0, 1.0, 2.5, -0.7}) {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      BeamSetup setup = setup_of(64, 7, penalty);  // 4 x 4 x 4 histories do not end
      if (seed % 4 == 3) {
        setup.banned = {end_token, 1};
        setup.end_of_text.clear();
      }
      std::vector<Found> all;
      search_all({}, 0, setup, seed, all);
      std::stable_sort(all.begin(), all.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
      BeamState state(setup);
      run(state, seed);
      REQUIRE(state.hypotheses().size() == 7);
      for (std::size_t i = 0; i < 7; ++i) {
        const BeamHypothesis& h = state.hypotheses()[i];
        REQUIRE(Path(h.tokens.begin(), h.tokens.end()) == all[i].path);
        REQUIRE(h.logprob == Approx(all[i].logprob).epsilon(1e-12));
        REQUIRE(h.score == Approx(all[i].score).epsilon(1e-12));
        REQUIRE(h.finish == (h.tokens.back() == end_token ? Finish::end_of_text : Finish::length));
      }
    }
  }
}

TEST_CASE("a beam of one is greedy, and a wider one never finds less of the best score without a penalty") {
  for (std::uint32_t seed = 100; seed < 130; ++seed) {
    BeamSetup setup = setup_of(1, 1, 0);
    setup.end_of_text.clear();
    BeamState one(setup);
    run(one, seed);
    Path greedy;
    for (int i = 0; i < 4; ++i) {
      const std::vector<float> logits = logits_of(greedy, seed);
      greedy.push_back(static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
    const BeamHypothesis& h = one.hypotheses().front();
    CHECK(Path(h.tokens.begin(), h.tokens.end()) == greedy);
    BeamState all(setup_of(64, 1, 0));
    run(all, seed);
    BeamState some(setup_of(3, 1, 0));
    run(some, seed);
    CHECK(all.hypotheses().front().score >= some.hypotheses().front().score - 1e-12);
  }
}

TEST_CASE("a search that is ended early gives what it has") {
  BeamState state(setup_of(3, 3, 1));
  run(state, 5, 2);
  REQUIRE_FALSE(state.over());
  state.end(Finish::deadline);
  CHECK(state.over());
  REQUIRE(state.hypotheses().size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const BeamHypothesis& h = state.hypotheses()[i];
    CHECK((h.finish == Finish::deadline ? h.tokens.size() == 2 : h.tokens.back() == end_token));
    if (i > 0) CHECK(h.score <= state.hypotheses()[i - 1].score);
  }
  BeamSetup none = setup_of(2, 1, 1);
  none.max_tokens = 0;
  none.longest = Finish::context_full;
  const BeamState empty(none);
  CHECK(empty.over());
  REQUIRE(empty.hypotheses().size() == 1);
  CHECK(empty.hypotheses().front().tokens.empty());
  CHECK(empty.hypotheses().front().finish == Finish::context_full);
}

TEST_CASE("rows that are no numbers are refused, impossible tokens are passed over") {
  BeamState state(setup_of(2, 2, 0));
  CHECK_FALSE(state.take_row(0, std::vector<float>{0, NAN, 0, 0, 0}));
  CHECK_FALSE(state.take_row(0, std::vector<float>{0, INFINITY, 0, 0, 0}));
  REQUIRE(state.take_row(0, std::vector<float>{-INFINITY, 1, -INFINITY, -INFINITY, -INFINITY}));
  const auto moves = state.advance();
  CHECK((moves[0].active && moves[0].token == 1));
  CHECK_FALSE(moves[1].active);
  REQUIRE(state.take_row(0, std::vector<float>(5, -INFINITY)));  // nothing can follow
  state.advance();
  CHECK(state.over());
}
