// What paging wastes, and what forks cost.
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>

#include "catch.h"
#include "fake_program.h"
#include "runtime/sequence.h"

using namespace llminfer;
using runtime::Sequence;
using runtime::Shortage;
using tests::FakePool;

TEST_CASE("256 sequences of log-normal lengths waste at most 4 % of their slots") {
  constexpr int page = 32, sequences = 256, context = 4096;
  constexpr double mean = 600, sigma = 0.8;
  std::mt19937 random(2024);
  std::normal_distribution<double> normal(std::log(mean) - sigma * sigma / 2, sigma);
  std::vector<int> lengths;
  for (int i = 0; i < sequences; ++i) {
    lengths.push_back(std::clamp(static_cast<int>(std::exp(normal(random))), 1, context));
  }
  FakePool fake(sequences * context / page, page, {0});
  std::vector<std::unique_ptr<Sequence>> all;
  const std::vector<Token> text(context, 7);
  // Three quarters are prompt, the rest comes token by token.
  for (const int length : lengths) {
    all.push_back(std::make_unique<Sequence>(fake.pool, context));
    REQUIRE(all.back()->append(std::span(text).first(static_cast<std::size_t>((length * 3 + 3) / 4))).kind ==
            Shortage::Kind::none);
  }
  double allocated = 0;
  double used = 0;
  double reserved = 0;
  bool grows = true;
  while (grows) {
    grows = false;
    allocated += static_cast<double>((fake.pool->total_pages()[0] - fake.pool->free_pages()[0]) * page);
    for (std::size_t i = 0; i < all.size(); ++i) {
      used += all[i]->size();
      if (all[i]->size() == lengths[i]) continue;
      REQUIRE(all[i]->append(std::span(text).first(1)).kind == Shortage::Kind::none);
      grows = true;
    }
    reserved += static_cast<double>(sequences) * context;
  }
  const double waste = 1 - used / allocated;
  const double contiguous = 1 - used / reserved;
  std::printf("mean length %.0f: pages of %d waste %.2f %%, a contiguous reservation of %d slots each %.1f %%\n",
              static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), 0)) / sequences, page, 100 * waste,
              context, 100 * contiguous);
  CHECK(waste <= 0.04);
  CHECK(waste > 0);
  CHECK(contiguous > 0.5);
}

TEST_CASE("n forks of a prompt of 2,000 tokens cost at most n pages a group") {
  constexpr int forks = 16;
  FakePool fake(200, 32, {0, 0, 512});
  Sequence prompt(fake.pool, 4096);
  REQUIRE(prompt.append(std::vector<Token>(2000, 3)).kind == Shortage::Kind::none);
  const auto free = [&](std::size_t g) { return fake.pool->pages(g).free(); };
  const std::vector<std::int32_t> before = {free(0), free(1), free(2)};
  CHECK(before[0] == 200 - 63);
  std::vector<std::unique_ptr<Sequence>> all;
  for (int i = 0; i < forks; ++i) {
    all.push_back(std::make_unique<Sequence>(fake.pool, 4096));
    all.back()->share(prompt);
  }
  for (std::size_t g = 0; g < 3; ++g) CHECK(free(g) == before[g]);
  // The logits of the last token again, or a first token of their own.
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Token own = static_cast<Token>(i);
    REQUIRE((i % 2 == 0 ? all[i]->recompute_last() : all[i]->append({&own, 1})).kind == Shortage::Kind::none);
  }
  for (std::size_t g = 0; g < 3; ++g) CHECK(free(g) >= before[g] - forks);
  std::vector<const Sequence*> everybody{&prompt};
  for (const auto& s : all) everybody.push_back(s.get());
  REQUIRE(fake.pool->invariants(everybody) == "");
}
