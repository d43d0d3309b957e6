// Random operations on one pool against plain copies of the histories; after each of them every page must be free,
// cached or referenced as often as counted, and hold what it should.
#include <array>
#include <random>

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

/// What is kept of a sequence outside of the pool.
struct Saved {
  std::vector<Token> tokens;
  std::int32_t computed = 0;
  std::vector<std::int32_t> given_back;
  std::vector<std::vector<std::vector<std::byte>>> pages;  // group, page from given_back on
};

class Operations {
 public:
  Operations(Paging paging, bool cache, std::uint32_t seed)
      : paging_(paging), random_(seed), fake_(std::vector<std::int32_t>{22, 22, 14}, 4, {0, 0, 9}, cache) {}

  void run(int operations) {
    for (int i = 0; i < operations; ++i) {
      one();
      std::vector<const Sequence*> all;
      for (std::size_t k = 0; k < sequences_.size(); ++k) {
        all.push_back(sequences_[k].get());
        const auto tokens = sequences_[k]->tokens();
        REQUIRE(std::equal(histories_[k].begin(), histories_[k].end(), tokens.begin(), tokens.end()));
      }
      const std::string wrong = fake_.wrong(all);
      if (!wrong.empty()) FAIL("operation " << i << ": " << wrong);
      full_ += fake_.pool->free_pages()[0] == 0 ? 1 : 0;
    }
  }

  int full() const { return full_; }
  int refused() const { return refused_; }
  int restored() const { return restored_; }
  FakePool& fake() { return fake_; }
  std::int64_t adopted() const { return adopted_; }

 private:
  std::size_t pick(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  void one() {
    if (sequences_.empty() || (sequences_.size() < 8 && pick(12) == 0)) return open();
    const std::size_t at = pick(sequences_.size());
    switch (pick(12)) {
      case 0:
        return close(at);
      case 1:
        return rewind(at);
      case 2:
        return save_and_restore(at);
      case 3:
        if (paging_ == Paging::at_step && pick(3) == 0) return sequences_[at]->evict();
        return recompute_last(at);
      case 4:
      case 5:
      case 6:
        return append(at);
      default:
        return compute(at);
    }
  }

  /// A new one, or a fork.
  void open() {
    auto s = std::make_unique<Sequence>(fake_.pool, 64, paging_);
    std::vector<Token> history;
    if (!sequences_.empty() && pick(2) == 0) {
      const std::size_t parent = pick(sequences_.size());
      s->share(*sequences_[parent]);
      history = histories_[parent];
    } else {
      s->set_salt(pick(4) == 0 ? 1 : 0);
    }
    sequences_.push_back(std::move(s));
    histories_.push_back(std::move(history));
  }

  void close(std::size_t at) {
    sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(at));
    histories_.erase(histories_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void rewind(std::size_t at) {
    Sequence& s = *sequences_[at];
    const std::size_t back = pick(3) == 0 ? pick(static_cast<std::size_t>(s.size()) + 1) : pick(4);
    const std::int32_t to = std::max(0, s.size() - static_cast<std::int32_t>(back));
    s.rewind(to);
    histories_[at].resize(static_cast<std::size_t>(to));
    if (pick(2) == 0) s.trim();
  }

  /// What a few common texts go on with, now and then something else.
  void append(std::size_t at) {
    Sequence& s = *sequences_[at];
    const std::size_t text = pick(4);
    std::vector<Token> more;
    const auto count = static_cast<std::int32_t>(pick(14));
    for (std::int32_t p = s.size(); p < s.size() + count; ++p) {
      more.push_back(text == 0 ? static_cast<Token>(pick(900)) : static_cast<Token>(100 + (p * 7) % 13));
    }
    if (s.append(more).kind == Shortage::Kind::none) {
      histories_[at].insert(histories_[at].end(), more.begin(), more.end());
    } else {
      ++refused_;
    }
  }

  void compute(std::size_t at) {
    Sequence& s = *sequences_[at];
    if (pick(2) == 0) adopted_ += s.adopt_prefix();
    const runtime::PageCounts missing = s.missing_pages(s.size());
    const bool fits = missing.fit(fake_.pool->free_pages());
    const Shortage shortage = s.reserve(s.size());
    REQUIRE((shortage.kind == Shortage::Kind::none) == fits);
    const std::int32_t left = s.size() - s.computed();
    if (!fits) ++refused_;
    if (!fits || left == 0) return;
    REQUIRE(!s.missing_pages(s.size()).any());
    runtime::StepPlan plan;
    plan.items.push_back({&s, std::min(left, 1 + static_cast<std::int32_t>(pick(16))), runtime::RowsWanted::last});
    const bool fails = pick(10) == 0;
    fake_.program->fail_next = fails;
    REQUIRE(fake_.pool->executor().run(*fake_.pool, plan, {}, backend::StopFlag()).ok() == !fails);
  }

  void recompute_last(std::size_t at) {
    Sequence& s = *sequences_[at];
    if (s.size() == 0 || s.computed() < s.size()) return;
    if (paging_ == Paging::at_step) {
      s.forget_last();
    } else if (s.recompute_last().kind == Shortage::Kind::none) {
      REQUIRE(s.computed() < s.size());
    }
  }

  /// Out of the pool and in again.
  void save_and_restore(std::size_t at) {
    Sequence& s = *sequences_[at];
    Saved saved{histories_[at], s.usable(), {}, {}};
    for (std::size_t g = 0; g < fake_.pool->groups(); ++g) {
      saved.given_back.push_back(saved.computed > 0 ? s.given_back(g) : 0);
      saved.pages.emplace_back();
      for (auto i = static_cast<std::size_t>(saved.given_back.back()); i * 4 < static_cast<std::size_t>(saved.computed);
           ++i) {
        saved.pages.back().emplace_back(fake_.storage().page_bytes(static_cast<std::int32_t>(g)));
        REQUIRE(fake_.storage().read_page(static_cast<std::int32_t>(g), s.table(g)[i], saved.pages.back().back()).ok());
      }
    }
    close(at);
    auto back = std::make_unique<Sequence>(fake_.pool, 64, paging_);
    if (back->append(saved.tokens).kind != Shortage::Kind::none ||
        back->restore(saved.computed, saved.given_back).kind != Shortage::Kind::none) {
      ++refused_;  // others share its pages
      return;
    }
    for (std::size_t g = 0; g < fake_.pool->groups(); ++g) {
      for (std::size_t i = 0; i < saved.pages[g].size(); ++i) {
        const std::int32_t page = back->table(g)[i + static_cast<std::size_t>(saved.given_back[g])];
        REQUIRE(fake_.storage().write_page(static_cast<std::int32_t>(g), page, saved.pages[g][i]).ok());
      }
    }
    ++restored_;
    sequences_.push_back(std::move(back));
    histories_.push_back(std::move(saved.tokens));
  }

  Paging paging_;
  std::mt19937 random_;
  FakePool fake_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::vector<std::vector<Token>> histories_;
  int full_ = 0;
  int refused_ = 0;
  int restored_ = 0;
  std::int64_t adopted_ = 0;
};

void operations(int count) {
  Operations append(Paging::at_append, false, 5);
  append.run(count / 2);
  CHECK(append.full() > count / 100);
  CHECK(append.refused() > count / 100);
  CHECK(append.restored() > count / 1000);
  Operations step(Paging::at_step, true, 6);
  step.run(count - count / 2);
  CHECK(step.full() > count / 100);
  CHECK(step.refused() > count / 100);
  CHECK(step.restored() > count / 1000);
  CHECK(step.adopted() > count / 20);
  CHECK(step.fake().pool->prefix_cache()->stats().evictions > 100);
}

}  // namespace

TEST_CASE("50,000 random operations") { operations(50'000); }

TEST_CASE("1,000,000 random operations", "[.slow]") { operations(1'000'000); }
