// Pages behind a window are given back, and what the prefix cache remembers.
#include <numeric>

#include "catch.h"
#include "fake_program.h"
#include "runtime/executor.h"
#include "runtime/sequence.h"

using namespace llminfer;
using runtime::Paging;
using runtime::Sequence;
using runtime::Shortage;
using tests::FakePool;

namespace {

std::vector<Token> iota(int count, Token first = 0) {
  std::vector<Token> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

/// Computes all that is left, `chunk` tokens at a time; every state on the way must be right.
Shortage::Kind compute_all(FakePool& fake, Sequence& s, const std::vector<const Sequence*>& all,
                           std::int32_t chunk = 16) {
  do {  // reserve() may find that all is to be computed again
    const Shortage shortage = s.reserve(s.size());
    if (shortage.kind != Shortage::Kind::none) return shortage.kind;
    const std::int32_t count = std::min(chunk, s.size() - s.computed());
    if (count == 0) break;
    runtime::StepPlan plan;
    plan.items.push_back({&s, count, runtime::RowsWanted::last});
    REQUIRE(fake.pool->executor().run(*fake.pool, plan, {}, backend::StopFlag()).ok());
    REQUIRE(fake.wrong(all) == "");
  } while (s.computed() < s.size());
  return Shortage::Kind::none;
}

}  // namespace

TEST_CASE("a group with a window holds its window, however long the text") {
  for (const Paging paging : {Paging::at_append, Paging::at_step}) {
    FakePool fake(200, 4, {0, 10});
    Sequence s(fake.pool, 800, paging);
    const std::int64_t most = runtime::window_pages(10, 4, 16);
    for (int i = 0; i < 40; ++i) {
      REQUIRE(s.append(iota(i % 5 == 0 ? 50 : 1, 10 * i)).kind == Shortage::Kind::none);
      REQUIRE(compute_all(fake, s, {&s}) == Shortage::Kind::none);
      REQUIRE(s.pages()[0] == (s.size() + 3) / 4);
      REQUIRE(s.pages()[1] <= most);
    }
    CHECK(s.size() == 8 * 50 + 32);
    CHECK(s.given_back(1) > 90);
    CHECK(fake.pool->free_pages()[1] >= 200 - most);
  }
}

TEST_CASE("a pool with few pages for the window serves a long text") {
  for (const Paging paging : {Paging::at_append, Paging::at_step}) {
    const auto few = static_cast<std::int32_t>(runtime::window_pages(10, 4, 16));
    FakePool fake(std::vector<std::int32_t>{100, few}, 4, {0, 10});
    CHECK(fake.pool->total_pages()[0] == 100);
    CHECK(fake.pool->total_pages()[1] == few);
    Sequence s(fake.pool, 400, paging);
    REQUIRE(s.append(iota(390)).kind == Shortage::Kind::none);
    REQUIRE(compute_all(fake, s, {&s}) == Shortage::Kind::none);
    for (int i = 0; i < 10; ++i) {
      REQUIRE(s.append(iota(1, 500 + i)).kind == Shortage::Kind::none);
      REQUIRE(compute_all(fake, s, {&s}) == Shortage::Kind::none);
    }
  }
}

TEST_CASE("going back a little keeps what is computed, further computes all again") {
  for (const Paging paging : {Paging::at_append, Paging::at_step}) {
    FakePool fake(40, 4, {0, 10});
    Sequence s(fake.pool, 200, paging);
    REQUIRE(s.append(iota(80)).kind == Shortage::Kind::none);
    REQUIRE(compute_all(fake, s, {&s}) == Shortage::Kind::none);
    s.rewind(76);
    REQUIRE(s.reserve(s.size()).kind == Shortage::Kind::none);
    CHECK(s.computed() == 76);
    REQUIRE(s.append(iota(6, 300)).kind == Shortage::Kind::none);
    REQUIRE(compute_all(fake, s, {&s}) == Shortage::Kind::none);
    Sequence fork(fake.pool, 200, paging);
    fork.share(s);
    s.rewind(40);
    REQUIRE(s.append(iota(3, 400)).kind == Shortage::Kind::none);
    REQUIRE(s.reserve(s.size()).kind == Shortage::Kind::none);
    CHECK(s.computed() == 0);
    REQUIRE(compute_all(fake, s, {&s, &fork}) == Shortage::Kind::none);
    CHECK(s.computed() == 43);
    CHECK(fork.computed() == 82);  // untouched
    REQUIRE(fake.wrong({&s, &fork}) == "");
  }
}

TEST_CASE("the last token again, at a window's edge") {
  for (int size = 1; size < 60; ++size) {
    FakePool fake(40, 4, {0, 6});
    Sequence s(fake.pool, 200);
    REQUIRE(s.append(iota(size)).kind == Shortage::Kind::none);
    REQUIRE(compute_all(fake, s, {&s}) == Shortage::Kind::none);
    REQUIRE(s.recompute_last().kind == Shortage::Kind::none);
    CHECK(s.computed() == size - 1);
    REQUIRE(compute_all(fake, s, {&s}) == Shortage::Kind::none);
  }
}

TEST_CASE("forks of a windowed sequence share and part") {
  FakePool fake(60, 4, {10, 0});
  Sequence a(fake.pool, 200);
  REQUIRE(a.append(iota(50)).kind == Shortage::Kind::none);
  REQUIRE(compute_all(fake, a, {&a}) == Shortage::Kind::none);
  const runtime::PageCounts before = fake.pool->free_pages();
  Sequence b(fake.pool, 200);
  b.share(a);
  CHECK(fake.pool->free_pages() == before);
  REQUIRE(b.append(iota(60, 300)).kind == Shortage::Kind::none);
  REQUIRE(a.append(iota(20, 500)).kind == Shortage::Kind::none);
  REQUIRE(compute_all(fake, b, {&a, &b}, 7) == Shortage::Kind::none);
  REQUIRE(compute_all(fake, a, {&a, &b}, 3) == Shortage::Kind::none);
}

TEST_CASE("the beginning of a history comes from the cache") {
  for (const std::int32_t window : {0, 6}) {
    FakePool fake(40, 4, {0, window}, true);
    {
      Sequence first(fake.pool, 100, Paging::at_step);
      REQUIRE(first.append(iota(42)).kind == Shortage::Kind::none);
      CHECK(first.adopt_prefix() == 0);
      REQUIRE(compute_all(fake, first, {&first}) == Shortage::Kind::none);
      Sequence beside(fake.pool, 100, Paging::at_step);  // while the other is in use
      REQUIRE(beside.append(iota(30)).kind == Shortage::Kind::none);
      REQUIRE(beside.append(iota(9, 700)).kind == Shortage::Kind::none);
      CHECK(beside.adopt_prefix() == 28);
      REQUIRE(compute_all(fake, beside, {&first, &beside}) == Shortage::Kind::none);
    }
    CHECK(fake.pool->free_pages()[0] == 40);  // cached ones are free
    CHECK(fake.pool->pages(0).cached() == 12);
    Sequence again(fake.pool, 100, Paging::at_step);
    REQUIRE(again.append(iota(40)).kind == Shortage::Kind::none);
    CHECK(again.adopt_prefix() == 36);  // never the last token
    REQUIRE(fake.wrong({&again}) == "");
    CHECK(again.given_back(1) == (window == 0 ? 0 : 7));
    REQUIRE(compute_all(fake, again, {&again}) == Shortage::Kind::none);
    Sequence other(fake.pool, 100, Paging::at_step);
    other.set_salt(1);
    REQUIRE(other.append(iota(40)).kind == Shortage::Kind::none);
    CHECK(other.adopt_prefix() == 0);
    Sequence differs(fake.pool, 100, Paging::at_step);
    REQUIRE(differs.append(iota(1, 5)).kind == Shortage::Kind::none);
    REQUIRE(differs.append(iota(39, 1)).kind == Shortage::Kind::none);
    CHECK(differs.adopt_prefix() == 0);
  }
}

TEST_CASE("cached pages are given away, the oldest and those at a history's end first") {
  FakePool fake(12, 4, {0, 0}, true);
  const auto run = [&](Token first, int count) {
    Sequence s(fake.pool, 100, Paging::at_step);
    REQUIRE(s.append(iota(count, first)).kind == Shortage::Kind::none);
    const std::int32_t hit = s.adopt_prefix();
    REQUIRE(compute_all(fake, s, {&s}) == Shortage::Kind::none);
    return hit;
  };
  CHECK(run(0, 21) == 0);  // 5 whole pages of 6
  CHECK(run(500, 21) == 0);
  CHECK(fake.pool->pages(0).cached() == 10);
  CHECK(run(0, 21) == 20);   // now the newest
  CHECK(run(900, 17) == 0);  // takes 2 free pages and 3 cached ones
  CHECK(run(0, 21) == 20);
  CHECK(run(500, 21) == 8);
  CHECK(fake.pool->prefix_cache()->stats().hits == 3);
  CHECK(fake.pool->prefix_cache()->stats().hit_tokens == 48);
  CHECK(fake.pool->prefix_cache()->stats().evictions > 0);
}

TEST_CASE("a page that is written again is no longer what the cache knew") {
  FakePool fake(20, 4, {0, 0}, true);
  Sequence s(fake.pool, 100, Paging::at_step);
  REQUIRE(s.append(iota(16)).kind == Shortage::Kind::none);
  REQUIRE(compute_all(fake, s, {&s}) == Shortage::Kind::none);
  s.rewind(10);
  REQUIRE(s.append(iota(6, 300)).kind == Shortage::Kind::none);
  REQUIRE(compute_all(fake, s, {&s}) == Shortage::Kind::none);
  Sequence old(fake.pool, 100, Paging::at_step);
  REQUIRE(old.append(iota(17)).kind == Shortage::Kind::none);
  CHECK(old.adopt_prefix() == 8);
  REQUIRE(compute_all(fake, old, {&s, &old}) == Shortage::Kind::none);
  // A shared page is copied instead, and stays known.
  Sequence fork(fake.pool, 100, Paging::at_step);
  fork.share(old);
  fork.rewind(13);
  REQUIRE(compute_all(fake, fork, {&s, &old, &fork}) == Shortage::Kind::none);
  REQUIRE(fork.append(iota(4, 600)).kind == Shortage::Kind::none);
  REQUIRE(compute_all(fake, fork, {&s, &old, &fork}) == Shortage::Kind::none);
  Sequence last(fake.pool, 100, Paging::at_step);
  REQUIRE(last.append(iota(17)).kind == Shortage::Kind::none);
  CHECK(last.adopt_prefix() == 16);
  REQUIRE(fake.wrong({&s, &old, &fork, &last}) == "");
}
