#include "runtime/sampling/banned_strings.h"

#include <algorithm>

#include "catch.h"
#include "fixtures.h"

using namespace sampling_test;

namespace {

// Tokens spell what the map says; 100 is "hello wor", 101 "ld", 102 "ld!", 103 a control token, 104 " ab", 105 "abab".
const Letters letters({{100, "hello wor"}, {101, "ld"}, {102, "ld!"}, {103, ""}, {104, " ab"}, {105, "abab"}});

struct Feed {
  BannedStrings strings;
  std::vector<Token> history{7, 7};  // a prompt of two tokens
  int fresh = 0;

  explicit Feed(std::vector<std::string> banned) : strings(banned, &letters) {}
  BannedStrings::Finding operator()(Token token) {
    history.push_back(token);
    const auto finding = strings.accept(history, ++fresh);
    history.resize(history.size() - static_cast<std::size_t>(finding.take_back));
    fresh -= finding.take_back;
    return finding;
  }
};

}  // namespace

TEST_CASE("A banned string within one token takes that token back") {
  Feed feed({"bab"});
  const auto finding = feed(105);
  CHECK(finding.take_back == 1);
  CHECK(finding.held == 0);
  CHECK(feed.strings.attempts(2) == 1);
}

TEST_CASE("A banned string over several tokens goes back to its beginning") {
  Feed feed({"world"});
  CHECK(feed(100).held == 1);  // "wor" may be the start of it
  CHECK(feed(103).held == 2);  // a control token adds no text
  CHECK(feed(102).take_back == 3);
  CHECK(feed.history.size() == 2);
  CHECK(feed.strings.attempts(2) == 1);
  CHECK(feed.strings.attempts(3) == 0);
}

TEST_CASE("Text is held only while it is a prefix") {
  Feed feed({"abc"});
  CHECK(feed(104).held == 1);
  CHECK(feed(3).held == 0);    // "d"
  CHECK(feed(0).held == 1);    // "a"
  CHECK(feed(0).held == 1);    // "aa": the last a only
  CHECK(feed(1).held == 2);    // "ab"
  CHECK(feed(105).held == 1);  // "abab": of the newest token's text "ab" is a prefix
  CHECK(feed(2).take_back == 2);
}

TEST_CASE("The earliest of several strings decides") {
  Feed feed({"llo", "hello wor", "zz"});
  CHECK(feed(100).take_back == 1);
  feed(25);  // z
  CHECK(feed(25).take_back == 2);
}

TEST_CASE("The prompt's text is no part of a match") {
  Feed feed({"hh"});  // tokens 7 spell h
  CHECK(feed(7).held == 1);
  CHECK(feed(7).take_back == 2);
}

TEST_CASE("After a rollback matching goes on from the text that is left") {
  Feed feed({"abcd"});
  const auto cut_to = [&](std::size_t fresh) {
    feed.history.resize(2 + fresh);
    feed.fresh = static_cast<int>(fresh);
    feed.strings.rolled_back_to(2 + fresh);
  };
  for (const Token token : {0, 1, 2}) feed(token);
  cut_to(2);                 // "ab" is left
  CHECK(feed(3).held == 0);  // "abd": the c is gone
  cut_to(2);
  CHECK(feed(2).held == 3);  // "abc": the ab is not
  cut_to(0);
  CHECK(feed(3).held == 0);
  for (const Token token : {0, 1, 2}) feed(token);
  CHECK(feed(3).take_back == 4);
}

TEST_CASE("Generation with banned strings never shows one, and ends") {
  SamplerWorkspace workspace(60);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SamplingOptions options{.temperature = 1.5f, .seed = seed, .banned_strings = {"a", "bc", "bd", "xyz", "mm"}};
    SamplerChain chain(options, setup_for(60, &letters));
    std::vector<Token> history{0, 1};
    int taken_back = 0;
    std::string delivered;  // what a caller that respects `held` has shown
    std::size_t shown = 2;
    for (int steps = 0; history.size() < 60; ++steps) {
      REQUIRE(steps < 2000);
      Draw draw;
      const auto row = static_cast<std::uint32_t>(history.size());
      REQUIRE(chain.sample(workspace, logits_row(row, 60), history, draw) == SampleStatus::ok);
      history.push_back(draw.token);
      const Accepted accepted = chain.accept(history);
      taken_back += accepted.take_back;
      history.resize(history.size() - static_cast<std::size_t>(accepted.take_back));
      REQUIRE(shown <= history.size());  // nothing shown is ever taken back
      while (shown + static_cast<std::size_t>(accepted.held) < history.size()) {
        delivered += letters.bytes(history[shown++]);
      }
    }
    for (const std::string& banned : options.banned_strings) CHECK(delivered.find(banned) == std::string::npos);
    CHECK(taken_back > 0);
    CHECK(chain.new_tokens() == 58);
  }
}

TEST_CASE("When every continuation is banned the request fails instead of turning in circles") {
  SamplerWorkspace workspace(3);
  SamplerChain chain({.banned_strings = {"a", "b", "c"}}, setup_for(3, &letters));
  std::vector<Token> history{0};
  for (int i = 0; i < 3; ++i) {
    Draw draw;
    REQUIRE(chain.sample(workspace, std::vector<float>{1, 2, 3}, history, draw) == SampleStatus::ok);
    CHECK(draw.token == 2 - i);
    history.push_back(draw.token);
    CHECK(chain.accept(history).take_back == 1);
    history.pop_back();
  }
  Draw draw;
  CHECK(chain.sample(workspace, std::vector<float>{1, 2, 3}, history, draw) == SampleStatus::nothing_left);
}

TEST_CASE("A second attempt at a position has a random number of its own") {
  // Drawing again with the same number would favour the neighbours of the banned token.
  SamplerWorkspace workspace(3);
  const std::vector<float> logits{0, 0, 0};
  int second = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SamplerChain chain({.temperature = 1.0f, .seed = seed, .banned_strings = {"a"}}, setup_for(3, &letters));
    std::vector<Token> history{1};
    Draw draw;
    REQUIRE(chain.sample(workspace, logits, history, draw) == SampleStatus::ok);
    if (draw.token != 0) continue;
    history.push_back(draw.token);
    REQUIRE(chain.accept(history).take_back == 1);
    history.pop_back();
    REQUIRE(chain.sample(workspace, logits, history, draw) == SampleStatus::ok);
    CHECK(draw.token == (StepRandom{seed, 0, 1, 1}.uniform(0) < 0.5f ? 1 : 2));
    ++second;
  }
  CHECK(second > 5);
}
