#include "runtime/sequence.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "catch.h"
#include "fake_program.h"
#include "runtime/executor.h"

using namespace llminfer;
using runtime::Sequence;
using runtime::Shortage;
using tests::FakePool;

namespace {

std::vector<Token> iota(int count, Token first = 0) {
  std::vector<Token> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

backend::Status compute(FakePool& fake, Sequence& s, int count) {
  runtime::StepPlan plan;
  plan.items.push_back({&s, count, runtime::RowsWanted::last});
  return fake.pool->executor().run(*fake.pool, plan, {}, backend::StopFlag());
}

void compute_all(FakePool& fake, Sequence& s) {
  while (s.computed() < s.size()) REQUIRE(compute(fake, s, std::min(16, s.size() - s.computed())).ok());
}

/// Every computed token stands in its page, in every group, and page counts agree with the tables.
void check_state(FakePool& fake, const std::vector<const Sequence*>& sequences) {
  REQUIRE(fake.wrong(sequences) == "");
}

}  // namespace

TEST_CASE("append reserves whole pages or changes nothing") {
  FakePool fake(4);
  Sequence s(fake.pool, 100);
  CHECK(s.append(iota(5)).kind == Shortage::Kind::none);
  CHECK(s.table(0).size() == 2);
  const Shortage pages = s.append(iota(12));
  CHECK(pages.kind == Shortage::Kind::pages);
  CHECK(pages.needed == 3);
  CHECK(pages.available == 2);
  CHECK(s.size() == 5);
  const Shortage context = s.append(iota(96));
  CHECK(context.kind == Shortage::Kind::context);
  CHECK(context.needed == 101);
  CHECK(context.available == 100);
  check_state(fake, {&s});
}

TEST_CASE("forks share pages until one of them writes") {
  FakePool fake(16);
  Sequence a(fake.pool, 64);
  REQUIRE(a.append(iota(6)).kind == Shortage::Kind::none);
  compute_all(fake, a);
  Sequence b(fake.pool, 64);
  b.share(a);
  CHECK(fake.pool->pages(0).free() == 14);
  REQUIRE(b.append(iota(1, 100)).kind == Shortage::Kind::none);
  CHECK(fake.storage().copies == 2);  // the last page, in both groups
  compute_all(fake, b);
  REQUIRE(a.append(iota(1, 200)).kind == Shortage::Kind::none);
  CHECK(fake.storage().copies == 2);  // a has its page for itself again
  compute_all(fake, a);
  check_state(fake, {&a, &b});
}

TEST_CASE("a fork at a page's end copies nothing") {
  FakePool fake(16);
  Sequence a(fake.pool, 64);
  REQUIRE(a.append(iota(8)).kind == Shortage::Kind::none);
  compute_all(fake, a);
  Sequence b(fake.pool, 64);
  b.share(a);
  REQUIRE(b.append(iota(1, 100)).kind == Shortage::Kind::none);
  CHECK(fake.storage().copies == 0);
  check_state(fake, {&a, &b});
}

TEST_CASE("computing the last token again never writes into a shared page") {
  FakePool fake(4);
  Sequence a(fake.pool, 64);
  REQUIRE(a.append(iota(8)).kind == Shortage::Kind::none);
  compute_all(fake, a);
  {
    Sequence b(fake.pool, 64);
    b.share(a);
    REQUIRE(b.recompute_last().kind == Shortage::Kind::none);
    CHECK(b.computed() == 7);
    CHECK(fake.storage().copies == 2);
    compute_all(fake, b);
    check_state(fake, {&a, &b});
    Sequence c(fake.pool, 64);
    c.share(a);
    REQUIRE(c.append(iota(4)).kind == Shortage::Kind::none);
    Sequence d(fake.pool, 64);
    d.share(a);
    CHECK(d.recompute_last().kind == Shortage::Kind::pages);
    CHECK(d.computed() == 8);
    check_state(fake, {&a, &b, &c, &d});
  }
  check_state(fake, {&a});
}

TEST_CASE("a failed step commits nothing") {
  FakePool fake(8);
  Sequence s(fake.pool, 64);
  REQUIRE(s.append(iota(5)).kind == Shortage::Kind::none);
  fake.program->fail_next = true;
  CHECK(compute(fake, s, 5).code == ErrorCode::device_lost);
  CHECK(s.computed() == 0);
  CHECK(compute(fake, s, 6).code == ErrorCode::invalid_argument);
  CHECK(compute(fake, s, 0).code == ErrorCode::invalid_argument);
  CHECK(compute(fake, s, 5).ok());
  CHECK(s.computed() == 5);
}

TEST_CASE("random forks, appends and rewinds agree with plain copies of the history") {
  std::mt19937 random(7);
  FakePool fake(24);
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<std::vector<Token>> histories;
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::size_t action = pick(6);
    if (sequences.empty() || (action == 0 && sequences.size() < 8)) {
      sequences.push_back(std::make_unique<Sequence>(fake.pool, 64));
      histories.emplace_back();
      if (sequences.size() > 1) {
        const std::size_t parent = pick(sequences.size() - 1);
        sequences.back()->share(*sequences[parent]);
        histories.back() = histories[parent];
      }
      continue;
    }
    const std::size_t at = pick(sequences.size());
    Sequence& s = *sequences[at];
    if (action == 1) {
      const auto to = static_cast<std::int32_t>(pick(static_cast<std::size_t>(s.size()) + 1));
      s.rewind(to);
      histories[at].resize(static_cast<std::size_t>(to));
    } else if (action == 2 && sequences.size() > 1) {
      sequences.erase(sequences.begin() + static_cast<std::ptrdiff_t>(at));
      histories.erase(histories.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (action == 3 && s.size() > 0) {
      if (s.recompute_last().kind == Shortage::Kind::none) compute_all(fake, s);
    } else {
      const std::vector<Token> more = iota(static_cast<int>(pick(9)), static_cast<Token>(pick(900)));
      if (s.append(more).kind == Shortage::Kind::none) {
        histories[at].insert(histories[at].end(), more.begin(), more.end());
        compute_all(fake, s);
      } else {
        ++refused;
      }
    }
    std::vector<const Sequence*> all;
    for (std::size_t k = 0; k < sequences.size(); ++k) {
      all.push_back(sequences[k].get());
      REQUIRE(std::equal(histories[k].begin(), histories[k].end(), sequences[k]->tokens().begin(),
                         sequences[k]->tokens().end()));
    }
    check_state(fake, all);
  }
  CHECK(refused > 100);  // the pool was full often enough to matter
}

TEST_CASE("pages at the step: histories wait without pages, lose them and go on") {
  std::mt19937 random(9);
  FakePool fake(14);
  constexpr auto paging = runtime::Paging::at_step;
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<std::vector<Token>> histories;
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::size_t action = pick(7);
    if (sequences.empty() || (action == 0 && sequences.size() < 8)) {
      sequences.push_back(std::make_unique<Sequence>(fake.pool, 64, paging));
      histories.emplace_back();
      if (sequences.size() > 1) {
        const std::size_t parent = pick(sequences.size() - 1);
        sequences.back()->share(*sequences[parent]);
        histories.back() = histories[parent];
      }
      continue;
    }
    const std::size_t at = pick(sequences.size());
    Sequence& s = *sequences[at];
    if (action == 1) {
      const auto to = static_cast<std::int32_t>(pick(static_cast<std::size_t>(s.size()) + 1));
      s.rewind(to);
      histories[at].resize(static_cast<std::size_t>(to));
      if (pick(2) == 0) s.trim();
    } else if (action == 2 && sequences.size() > 1) {
      sequences.erase(sequences.begin() + static_cast<std::ptrdiff_t>(at));
      histories.erase(histories.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (action == 3 && pick(3) == 0) {
      s.evict();
      REQUIRE((!s.pages().any() && s.computed() == 0));
    } else if (action == 4) {
      const std::vector<Token> more = iota(static_cast<int>(pick(9)), static_cast<Token>(pick(900)));
      const runtime::PageCounts pages = s.pages();
      if (s.append(more).kind == Shortage::Kind::none)
        histories[at].insert(histories[at].end(), more.begin(), more.end());
      REQUIRE(s.pages() == pages);
    } else if (s.size() > 0) {
      if (pick(3) == 0) s.forget_last();
      const runtime::PageCounts missing = s.missing_pages(s.size());
      const Shortage shortage = s.reserve(s.size());
      if (shortage.kind == Shortage::Kind::none) {
        REQUIRE(!s.missing_pages(s.size()).any());
        const auto left = static_cast<std::size_t>(s.size() - s.computed());
        if (left > 0) REQUIRE(compute(fake, s, std::min(16, 1 + static_cast<std::int32_t>(pick(left)))).ok());
      } else {
        REQUIRE(shortage.needed == missing[0]);
        ++refused;
      }
    }
    std::vector<const Sequence*> all;
    for (std::size_t k = 0; k < sequences.size(); ++k) {
      all.push_back(sequences[k].get());
      REQUIRE(std::equal(histories[k].begin(), histories[k].end(), sequences[k]->tokens().begin(),
                         sequences[k]->tokens().end()));
    }
    check_state(fake, all);
  }
  CHECK(refused > 100);
  Sequence bare(fake.pool, 64, paging);
  REQUIRE(bare.append(iota(5)).kind == Shortage::Kind::none);
  CHECK(compute(fake, bare, 5).code == ErrorCode::invalid_argument);  // tokens without pages
}
