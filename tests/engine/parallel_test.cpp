// Several continuations of one prompt and beam search: the texts of requests alone, shared pages, nothing left behind.
#include <cmath>

#include "batcher_fixture.h"
#include "catch.h"

using namespace llminfer;
using namespace std::chrono_literals;
using tests::all_pages_back;
using tests::alone;
using tests::open_tiny;
using tests::random_options;
using tests::ready_session;
using tests::small;
using tests::some_tokens;

namespace {

std::vector<Token> read_all(Generator& generator, std::vector<Token> prompt) {
  while (const Piece* piece = generator.next().value()) prompt.push_back(piece->token);
  return prompt;
}

struct Found {
  std::vector<Token> tokens;
  double logprob = 0;
  double score = 0;
};

/// Every continuation of `most` tokens or up to the model's end, by a Session.
void search_all(Session& session, double logprob, std::size_t most, double penalty, std::vector<Token>& path,
                std::vector<Found>& out) {
  session.prefill().value();
  const std::vector<float> logits(session.logits().begin(), session.logits().end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  const int size = static_cast<int>(session.tokens().size());
  for (Token t = 0; t < 16; ++t) {
    const double l = logprob + (logits[static_cast<std::size_t>(t)] - std::log(sum));
    path.push_back(t);
    if (t == 2 || path.size() == most) {
      out.push_back({path, l, l / std::pow(static_cast<double>(path.size()), penalty)});
    } else {
      session.append({&t, 1}).value();
      search_all(session, l, most, penalty, path, out);
      session.rewind(size).value();
    }
    path.pop_back();
  }
}

}  // namespace

TEST_CASE("continuations of one prompt are those of requests alone, and share its pages") {
  const Model model = open_tiny();
  const std::vector<Token> prompt = some_tokens(75, 16);
  GenerateOptions options = random_options(30, 77);
  options.sampling.sequence = 3;
  for (const int pages : {64, 7, 5}) {  // enough, then with preemptions
    Batcher batcher = Batcher::start(model, small(model, pages)).value();
    std::vector<Generator> generators = batcher.submit_many(ready_session(batcher, prompt), 6, options).value();
    REQUIRE(generators.size() == 6);
    std::vector<std::vector<Token>> texts;
    for (std::size_t i = 0; i < 6; ++i) {
      GenerateOptions one = options;
      one.sampling.sequence += static_cast<std::uint32_t>(i);
      texts.push_back(read_all(generators[i], prompt));
      REQUIRE(texts.back() == alone(model, prompt, one).history);
      REQUIRE(generators[i].outcome().prompt_tokens == 75);
      REQUIRE(generators[i].outcome().reused_tokens == (i == 0 ? 0 : 75));
    }
    std::sort(texts.begin(), texts.end());
    CHECK(std::unique(texts.begin(), texts.end()) - texts.begin() > 3);
    const BatchStats stats = batcher.stats();
    CHECK(stats.submitted == 6);
    CHECK(stats.time_to_first_token.count() == 6);
    if (pages == 64) CHECK(stats.prefill_tokens <= 80);  // the prompt once
    if (pages == 64) CHECK(stats.preemptions == 0);
    if (pages == 5) CHECK(stats.preemptions > 0);
    const Session session = std::move(generators.front()).release().value();
    CHECK(session.tokens().size() == 105);
    generators.clear();
  }
}

TEST_CASE("continuations are taken in together or not at all, and each may be dropped at any time") {
  const Model model = open_tiny();
  BatcherOptions limits = small(model, 32);
  limits.queue = 8;
  Batcher batcher = Batcher::start(model, limits).value();
  const std::vector<Token> prompt = some_tokens(100, 16);
  Session session = ready_session(batcher, prompt);
  CHECK(batcher.submit_many(std::move(session), 0).error().code == ErrorCode::invalid_argument);
  CHECK(batcher.submit_many(std::move(session), 9).error().code == ErrorCode::queue_full);
  CHECK(session.tokens().size() == 100);
  GenerateOptions fourth = random_options(8, 5);
  fourth.sampling.sequence = 3;
  const std::vector<Token> expected = alone(model, prompt, fourth).history;
  for (int round = 0; round < 12; ++round) {
    std::vector<Generator> generators = batcher.submit_many(std::move(session), 5, random_options(8, 5)).value();
    for (int i = 0; i < round / 3; ++i) REQUIRE(generators[0].next().value() != nullptr);
    // One goes at once, at times the one that computes the prompt, another is cancelled; the last but one sees nothing.
    const Session gone = std::move(generators[static_cast<std::size_t>(round % 3)]).release().value();
    CHECK(gone.tokens().size() >= 100);
    generators[static_cast<std::size_t>((round + 1) % 3)].cancel();
    REQUIRE(read_all(generators[3], prompt) == expected);
    generators.clear();
    session = ready_session(batcher, prompt);
  }
  CHECK(all_pages_back(batcher));
}

TEST_CASE("a beam wide enough finds what the search of everything finds, in any pool") {
  const Model model = open_tiny();
  const std::vector<Token> prompt = some_tokens(40, 16);
  for (const double penalty : {0.0, 1.0}) {
    std::vector<Found> all;
    {
      Session session = Session::open(model).value();
      session.append(prompt).value();
      std::vector<Token> path;
      search_all(session, 0, 3, penalty, path, all);
    }
    std::stable_sort(all.begin(), all.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
    for (const int pages : {600, 9}) {
      Batcher batcher = Batcher::start(model, small(model, pages)).value();
      BeamOptions options;
      options.beams = 225;  // 15 x 15 go on
      options.results = 10;
      options.max_tokens = 3;
      options.length_penalty = penalty;
      BeamSearch search = batcher.submit_beams(ready_session(batcher, prompt), options).value();
      const std::vector<Hypothesis> found = search.wait().value();
      REQUIRE(found.size() == 10);
      for (std::size_t i = 0; i < found.size(); ++i) {
        REQUIRE(found[i].tokens == all[i].tokens);
        REQUIRE(found[i].logprob == Approx(all[i].logprob).margin(1e-9));
        REQUIRE(found[i].score == Approx(all[i].score).margin(1e-9));
      }
      const BatchStats stats = batcher.stats();
      CHECK(stats.submitted == 1);
      CHECK(stats.completed == 1);
      CHECK(stats.running + stats.queued + stats.preempted == 0);
      Session back = std::move(search).release().value();
      CHECK(tests::history(back) == prompt);
      back.rewind(0).value();
      REQUIRE(all_pages_back(batcher));
    }
  }
}

TEST_CASE("beams go on beside other requests and change nothing of them") {
  const Model model = open_tiny();
  Batcher batcher = Batcher::start(model, small(model, 12)).value();
  const std::vector<Token> prompt = some_tokens(50, 16, 3);
  BeamOptions options;
  options.beams = 5;
  options.results = 5;
  options.max_tokens = 20;
  options.ignore_end_of_text = true;
  const std::vector<Hypothesis> expected =
      batcher.submit_beams(ready_session(batcher, prompt), options).value().wait().value();
  REQUIRE(expected.size() == 5);
  for (const Hypothesis& h : expected) {
    CHECK(h.tokens.size() == 20);
    CHECK(h.score == Approx(h.logprob / 20));
    CHECK(h.finish == Finish::length);
  }
  std::vector<Generator> others;
  std::vector<BeamSearch> searches;
  for (unsigned i = 0; i < 4; ++i) {
    others.push_back(batcher.submit(ready_session(batcher, prompt), random_options(30, i)).value());
    searches.push_back(batcher.submit_beams(ready_session(batcher, prompt), options).value());
  }
  for (unsigned i = 0; i < 4; ++i) {
    CHECK(read_all(others[i], prompt) == alone(model, prompt, random_options(30, i)).history);
    const std::vector<Hypothesis> found = searches[i].wait().value();
    REQUIRE(found.size() == 5);
    for (std::size_t k = 0; k < 5; ++k)
      CHECK((found[k].tokens == expected[k].tokens && found[k].text == expected[k].text));
  }
  CHECK(batcher.stats().preemptions > 0);
  others.clear();
  searches.clear();
  CHECK(all_pages_back(batcher));
}

TEST_CASE("a beam search ends when it is told to, and gives its pages back") {
  const Model model = open_tiny();
  Batcher batcher = Batcher::start(model, small(model, 40)).value();
  const std::vector<Token> prompt = some_tokens(40, 16);
  BeamOptions options;
  options.beams = 16;
  options.max_tokens = 80;
  options.ignore_end_of_text = true;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t steps = batcher.stats().steps;
    BeamSearch search = batcher.submit_beams(ready_session(batcher, prompt), options).value();
    while (batcher.stats().steps < steps + static_cast<std::uint64_t>(round)) std::this_thread::yield();
    if (round % 3 == 0) {
      search.cancel();
      CHECK(search.wait().error().code == ErrorCode::cancelled);
    } else if (round % 3 == 1) {
      CHECK(tests::history(std::move(search).release().value()) == prompt);
    }
  }
  CHECK(all_pages_back(batcher));

  options.deadlines.whole = 1ns;
  const std::vector<Hypothesis> late =
      batcher.submit_beams(ready_session(batcher, prompt), options).value().wait().value();
  REQUIRE(late.size() == 1);
  CHECK(late.front().finish == Finish::deadline);
  options.deadlines = {};
  options.max_tokens = 1000;  // the context of 128 is full before
  const std::vector<Hypothesis> full =
      batcher.submit_beams(ready_session(batcher, some_tokens(126, 16)), options).value().wait().value();
  CHECK(full.front().tokens.size() == 2);
  CHECK(full.front().finish == Finish::context_full);
  Session session = ready_session(batcher, prompt);
  for (const int bad : {0, 257}) {
    options.beams = bad;
    CHECK(batcher.submit_beams(std::move(session), options).error().code == ErrorCode::invalid_argument);
  }
  options.beams = 2;
  options.results = 3;
  CHECK(batcher.submit_beams(std::move(session), options).error().message.find("results is 3") != std::string::npos);
  options.results = 1;
  options.length_penalty = NAN;
  CHECK(batcher.submit_beams(std::move(session), options).error().code == ErrorCode::invalid_argument);
  CHECK(session.tokens().size() == 40);
  CHECK(all_pages_back(batcher));
}
