#include "runtime/sampling/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "catch.h"
#include "fixtures.h"

using namespace sampling_test;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

struct Reference {
  std::vector<Candidate> ranked;  // all but removed ones, best first

  explicit Reference(const std::vector<float>& logits) {
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] != -inf) ranked.push_back({static_cast<Token>(i), logits[i]});
    }
    std::sort(ranked.begin(), ranked.end(), [](const Candidate& a, const Candidate& b) {
      return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
    });
  }
};

std::vector<Token> ids(std::span<const Candidate> list) {
  std::vector<Token> out;
  for (const Candidate& c : list) out.push_back(c.id);
  return out;
}

std::vector<Token> best_ids(const Reference& reference, std::size_t k) {
  auto out = ids(std::span(reference.ranked).first(std::min(k, reference.ranked.size())));
  std::sort(out.begin(), out.end());
  return out;
}

// Few distinct values, so that ties are everywhere; some removed.
std::vector<float> tied_row(int size, std::mt19937& engine) {
  std::vector<float> x;
  for (int i = 0; i < size; ++i) {
    const auto value = static_cast<int>(engine() % 40);
    x.push_back(value == 0 ? -inf : static_cast<float>(value - 20) / 4);
  }
  return x;
}

}  // namespace

TEST_CASE("The k best are those of a full sort, ties by lower id") {
  std::mt19937 engine(3);
  for (const int size : {1, 2, 127, 128, 129, 1000, 5003, 70000}) {
    Candidates candidates(size, std::pmr::get_default_resource());
    std::vector<float> random;
    for (int i = 0; i < size; ++i) random.push_back(std::normal_distribution<float>(0, 3)(engine));
    auto tied = tied_row(size, engine);
    tied[0] = 1.0f;
    for (const auto& logits : {random, tied}) {
      const Reference reference(logits);
      for (const std::size_t k : {1, 2, 40, 130, 600, 5000, 1000000}) {
        REQUIRE(candidates.reset(logits) == LogitCheck::ok);
        CHECK(candidates.best() == reference.ranked[0].id);
        const auto top = candidates.top(k);
        REQUIRE(top.size() == std::min(k, reference.ranked.size()));
        CHECK(std::equal(top.begin(), top.end(), reference.ranked.begin(),
                         [](const Candidate& a, const Candidate& b) { return a.id == b.id && a.logit == b.logit; }));
        candidates.keep_top(k);
        CHECK(ids(candidates.list()) == best_ids(reference, k));
        candidates.keep_top(3);  // from the compact form
        CHECK(ids(candidates.list()) == best_ids(reference, std::min<std::size_t>(k, 3)));
      }
    }
  }
}

TEST_CASE("A vocabulary of 262,144 with a large k") {
  const auto logits = logits_row(9, 262144);
  const Reference reference(logits);
  Candidates candidates(262144, std::pmr::get_default_resource());
  for (const std::size_t k : {40, 2048, 2049, 100000}) {
    REQUIRE(candidates.reset(logits) == LogitCheck::ok);
    candidates.keep_top(k);
    CHECK(ids(candidates.list()) == best_ids(reference, k));
  }
}

TEST_CASE("Edits in both forms agree with a plain array") {
  std::mt19937 engine(5);
  for (int round = 0; round < 60; ++round) {
    const int size = 1 + static_cast<int>(engine() % 700);
    auto plain = tied_row(size, engine);
    plain[engine() % plain.size()] = 2.0f;
    const auto original = plain;
    Candidates candidates(size, std::pmr::get_default_resource());
    REQUIRE(candidates.reset(original) == LogitCheck::ok);
    for (int edit = 0; edit < 200; ++edit) {
      if (edit == 100) candidates.list();
      const auto id = static_cast<Token>(engine() % static_cast<unsigned>(size));
      const float value = engine() % 3 == 0 ? -inf : static_cast<float>(engine() % 64) / 8;
      candidates.set(id, static_cast<double>(value));
      float& slot = plain[static_cast<std::size_t>(id)];
      if (slot != -inf) slot = value;
      const Reference reference(plain);
      CHECK(candidates.best() == (reference.ranked.empty() ? -1 : reference.ranked[0].id));
      CHECK(candidates.logit(id) == static_cast<double>(slot));
      if (edit % 50 == 49)
        CHECK(ids(candidates.top(7)) ==
              ids(std::span(reference.ranked).first(std::min<std::size_t>(7, reference.ranked.size()))));
    }
    CHECK(ids(candidates.list()) == best_ids(Reference(plain), plain.size()));
  }
}

TEST_CASE("A scale is part of every logit") {
  const std::vector<float> logits{1, 0, -1, -inf};
  Candidates candidates(4, std::pmr::get_default_resource());
  REQUIRE(candidates.reset(logits) == LogitCheck::ok);
  candidates.multiply(2);
  CHECK(candidates.max() == 2);
  CHECK(candidates.logit(2) == -2);
  CHECK(candidates.logit(3) == minus_infinity);
  CHECK(candidates.logit(-1) == minus_infinity);
  CHECK(candidates.logit(4) == minus_infinity);
  candidates.set(1, 5);
  CHECK(candidates.best() == 1);
  CHECK(candidates.max() == 5);
  candidates.set(3, 100);  // removed stays removed
  CHECK(candidates.logit(3) == minus_infinity);
  const double expected = std::log(std::exp(2.0) + std::exp(5.0) + std::exp(-2.0));
  CHECK(candidates.log_sum_exp() == Approx(expected).epsilon(1e-6));
  candidates.keep_from(0);
  CHECK(ids(candidates.list()) == std::vector<Token>{0, 1});
  candidates.keep_from(1000);  // the largest always stays
  CHECK(ids(candidates.list()) == std::vector<Token>{1});
}

TEST_CASE("Extreme scales keep numbers finite") {
  const std::vector<float> logits{3e38f, -3e38f, 0};
  Candidates candidates(3, std::pmr::get_default_resource());
  for (const double factor : {1e300, 1e-300}) {
    REQUIRE(candidates.reset(logits) == LogitCheck::ok);
    for (int i = 0; i < 64; ++i) candidates.multiply(factor);
    CHECK(std::isfinite(candidates.log_sum_exp()));
    CHECK(candidates.draw(0.5f).token == 0);
    candidates.list();
    CHECK(std::isfinite(candidates.log_sum_exp()));
    CHECK(candidates.draw(0.5f).token == 0);
  }
}

TEST_CASE("Bad rows are told apart") {
  Candidates candidates(300, std::pmr::get_default_resource());
  std::vector<float> row(300, 0.0f);
  CHECK(candidates.reset(row) == LogitCheck::ok);
  for (const std::size_t at : {0, 127, 128, 299}) {
    auto bad = row;
    bad[at] = std::numeric_limits<float>::quiet_NaN();
    CHECK(candidates.reset(bad) == LogitCheck::not_a_number);
    bad[(at + 5) % 300] = -inf;
    CHECK(candidates.reset(bad) == LogitCheck::not_a_number);
    bad[at] = inf;
    CHECK(candidates.reset(bad) == LogitCheck::infinite);
    bad[at] = -inf;
    CHECK(candidates.reset(bad) == LogitCheck::ok);
  }
  CHECK(candidates.reset(std::vector<float>(300, -inf)) == LogitCheck::nothing_left);
}

TEST_CASE("Draws in dense and compact form are the same token") {
  int different = 0;
  for (std::uint32_t row = 0; row < 200; ++row) {
    const auto logits = logits_row(row, 1500);
    const float u = StepRandom{1, 0, row, 0}.uniform(0);
    Candidates candidates(1500, std::pmr::get_default_resource());
    REQUIRE(candidates.reset(logits) == LogitCheck::ok);
    const auto dense = candidates.draw(u);
    candidates.list();
    const auto compact = candidates.draw(u);
    different += dense.token != compact.token;
    if (dense.token == compact.token) CHECK(dense.log_probability == Approx(compact.log_probability).epsilon(1e-6));
  }
  CHECK(different <= 1);  // the two sums round differently: at a boundary they may part
}

TEST_CASE("Removed tokens are never drawn, not even by u = 0") {
  std::vector<float> logits(1000, -inf);
  logits[777] = -50.0f;
  Candidates candidates(1000, std::pmr::get_default_resource());
  for (const float u : {0.0f, 0.5f, 0x1.fffffep-1f}) {
    REQUIRE(candidates.reset(logits) == LogitCheck::ok);
    CHECK(candidates.draw(u).token == 777);
    candidates.list();
    CHECK(candidates.draw(u).token == 777);
  }
}
