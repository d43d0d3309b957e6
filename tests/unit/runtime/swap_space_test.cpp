// Pages that go to other memory and come back, in pools whose contents can be seen.
#include "runtime/swap_space.h"

#include <numeric>

#include "catch.h"
#include "fake_program.h"
#include "runtime/executor.h"

using namespace llminfer;
using runtime::Sequence;
using runtime::Shortage;
using runtime::SwapCost;
using runtime::SwapSpace;
using tests::FakePool;

namespace {

constexpr auto paging = runtime::Paging::at_step;

/// `size` tokens, all computed.
void compute(FakePool& fake, Sequence& s, std::int32_t size, Token first) {
  std::vector<Token> tokens(static_cast<std::size_t>(size));
  std::iota(tokens.begin(), tokens.end(), first);
  REQUIRE(s.append(tokens).kind == Shortage::Kind::none);
  while (s.computed() < s.size()) {
    REQUIRE(s.reserve(s.size()).kind == Shortage::Kind::none);
    runtime::StepPlan plan;
    plan.items.push_back({&s, std::min(16, s.size() - s.computed()), runtime::RowsWanted::last});
    REQUIRE(fake.pool->executor().run(*fake.pool, plan, {}, backend::StopFlag()).ok());
  }
}

}  // namespace

TEST_CASE("pages come back as they went, wherever there is room") {
  FakePool fake(8);
  const auto memory = std::make_shared<core::Memory>();
  SwapSpace swap(*fake.pool, 2 * 6 * 16, memory);  // six pages of 16 bytes in each of two groups
  Sequence a(fake.pool, 64, paging);
  Sequence b(fake.pool, 64, paging);
  SwapSpace::Kept kept_a, kept_b;
  swap.reserve(kept_a, 64);
  swap.reserve(kept_b, 64);
  CHECK_FALSE(swap.fits(a));  // nothing is computed
  compute(fake, a, 18, 100);
  compute(fake, b, 10, 500);
  CHECK(swap.bytes(a) == 2 * 5 * 16);
  REQUIRE(swap.fits(a));
  const std::uint64_t allocations = memory->allocations();
  REQUIRE(swap.keep(a, kept_a));
  CHECK(kept_a.computed == 18);
  CHECK((a.computed() == 0 && !a.pages().any() && a.size() == 18));
  CHECK_FALSE(swap.fits(b));  // one page is left
  compute(fake, b, 20, 700);  // into the pages that a had
  CHECK(swap.bring_back(a, kept_a).kind == Shortage::Kind::pages);
  CHECK(kept_a.computed == 18);
  b.rewind(8);
  b.trim();
  REQUIRE(swap.bring_back(a, kept_a).kind == Shortage::Kind::none);
  CHECK(a.computed() == 18);
  CHECK(kept_a.computed == 0);
  CHECK(fake.wrong({&a, &b}) == "");
  compute(fake, a, 3, 900);  // and goes on
  CHECK(fake.wrong({&a, &b}) == "");
  REQUIRE(swap.keep(b, kept_b));
  swap.drop(kept_b);
  a.evict();
  compute(fake, a, 1, 7);
  CHECK(swap.fits(a));  // all slots are free again
  CHECK(memory->allocations() == allocations);
}

TEST_CASE("of a group with a window only what is in use goes and comes back") {
  FakePool fake(24, 4, {0, 8});
  SwapSpace swap(*fake.pool, 2 * 24 * 16, std::make_shared<core::Memory>());
  Sequence a(fake.pool, 64, paging);
  Sequence b(fake.pool, 64, paging);
  SwapSpace::Kept kept;
  swap.reserve(kept, 64);
  compute(fake, a, 45, 100);
  REQUIRE(a.given_back(1) > 0);
  REQUIRE(swap.fits(a));
  CHECK(swap.bytes(a) == static_cast<std::uint64_t>(12 + 12 - a.given_back(1)) * 16);
  REQUIRE(swap.keep(a, kept));
  compute(fake, b, 30, 500);
  REQUIRE(swap.bring_back(a, kept).kind == Shortage::Kind::none);
  CHECK(fake.wrong({&a, &b}) == "");
  compute(fake, a, 10, 900);
  CHECK(fake.wrong({&a, &b}) == "");
}

TEST_CASE("without memory for it nothing is kept") {
  FakePool fake(8);
  SwapSpace swap(*fake.pool, 0, std::make_shared<core::Memory>());
  SwapSpace::Kept kept;
  swap.reserve(kept, 64);
  Sequence a(fake.pool, 64, paging);
  compute(fake, a, 5, 1);
  CHECK_FALSE(swap.fits(a));
  swap.drop(kept);
}

TEST_CASE("what is cheaper follows from what was seen") {
  SwapCost cost;
  for (int i = 0; i < 100; ++i) cost.saw_prefill(100, std::chrono::milliseconds(10));  // 100 us a token
  for (int i = 0; i < 100; ++i) cost.saw_copy(1 << 20, std::chrono::milliseconds(1));  // 1 GiB/s, both ways
  CHECK(cost.swap_is_cheaper(100, 5 << 19));
  CHECK_FALSE(cost.swap_is_cheaper(100, 11 << 19));
  cost.saw_copy(0, std::chrono::seconds(1));
  cost.saw_prefill(5, std::chrono::seconds(0));  // a clock that stands still says nothing
  CHECK(cost.swap_is_cheaper(100, 5 << 19));
}
