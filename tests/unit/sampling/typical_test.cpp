#include <algorithm>
#include <cmath>
#include <numeric>

#include "catch.h"
#include "fixtures.h"
#include "runtime/sampling/links.h"

using namespace sampling_test;

namespace {

// By a full sort. Masses within 1e-9 of p could go either way: `doubtful` says so.
std::vector<Token> typical(const std::vector<float>& logits, double p, bool& doubtful) {
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  std::vector<double> log_p;
  double h = 0;
  for (const float x : logits) {
    log_p.push_back(static_cast<double>(x) - std::log(sum));
    h -= std::exp(log_p.back()) * log_p.back();
  }
  std::vector<Token> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](Token i) { return std::abs(-log_p[static_cast<std::size_t>(i)] - h); };
  std::stable_sort(order.begin(), order.end(), [&](Token a, Token b) { return at(a) < at(b); });
  double mass = 0;
  std::size_t count = 0;
  while (count < order.size() && mass < p) mass += std::exp(log_p[static_cast<std::size_t>(order[count++])]);
  doubtful = std::abs(mass - p) < 1e-9;
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

TEST_CASE("Typical-p keeps what a full sort keeps, at any size") {
  int compared = 0;
  for (const int size : {1, 2, 64, 65, 66, 500, 5000}) {
    SamplerWorkspace workspace(size);
    for (std::uint32_t row = 0; row < 8; ++row) {
      auto logits = logits_row(row, size);
      if (row % 2 == 1) {  // few distinct values: many ties
        for (float& x : logits) x = std::round(x);
      }
      for (const float p : {0.0f, 0.1f, 0.5f, 0.9f, 0.999f}) {
        bool doubtful = false;
        const auto expected = typical(logits, std::max(static_cast<double>(p), 1e-30), doubtful);
        if (doubtful) continue;
        REQUIRE(workspace.candidates.reset(logits) == LogitCheck::ok);
        make_link(TypicalP{p}, LinkContext{})->apply(workspace.candidates, Step{});
        std::vector<Token> kept;
        for (const Candidate& c : workspace.candidates.list()) kept.push_back(c.id);
        CAPTURE(size, row, p);
        CHECK(kept == expected);
        ++compared;
      }
    }
  }
  CHECK(compared > 200);
}
