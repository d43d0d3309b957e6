// Submissions from 32 threads of every kind, dropped, cancelled, refused, thrown out of: nothing is lost, nothing
// hangs.
#include <atomic>
#include <random>
#include <stdexcept>
#include <thread>

#include "batcher_fixture.h"
#include "catch.h"

using namespace llminfer;
using tests::random_options;
using tests::ready_session;
using tests::some_tokens;

namespace {

/// Counts of all threads. Every session that was taken must come back or be dropped by its owner on purpose.
struct Counts {
  std::atomic<int> taken{0}, refused{0}, wrong{0}, callbacks{0}, ends{0};
};

constexpr int answers = 6;
constexpr unsigned variants = 4;

class Thread {
 public:
  Thread(Batcher& batcher, const std::vector<Token>& prompt, const std::vector<std::vector<Token>>& expected,
         Counts& counts, unsigned seed)
      : batcher_(batcher), prompt_(prompt), expected_(expected), counts_(counts), random_(seed) {}

  void run(int submissions) {
    for (int i = 0; i < submissions; ++i) {
      const unsigned kind = random_() % 8;
      Session session = ready_session(batcher_, prompt_);
      if (kind == 0) {
        with_callbacks(std::move(session));
      } else if (kind == 1) {
        search(std::move(session));
      } else if (kind == 2) {
        several(std::move(session));
      } else {
        one(std::move(session), kind);
      }
      if (i % 16 == 0) static_cast<void>(batcher_.stats());
    }
  }

 private:
  void check(bool right) { counts_.wrong += right ? 0 : 1; }

  /// False for a submission that was refused, which must have left the session as it was.
  template <class T>
  bool taken(const Result<T>& result, const Session& session) {
    if (!result) {
      check(result.error().code == ErrorCode::queue_full);
      check(session.tokens().size() == prompt_.size());
      ++counts_.refused;
      std::this_thread::yield();
      return false;
    }
    ++counts_.taken;
    return true;
  }

  void read(Generator& generator, unsigned variant) {
    std::vector<Token> got = prompt_;
    while (const Piece* piece = generator.next().value()) got.push_back(piece->token);
    check(got == expected_[variant]);
  }

  void one(Session session, unsigned kind) {
    const unsigned variant = random_() % variants;
    Result<Generator> generator = batcher_.submit(std::move(session), random_options(answers, variant));
    if (!taken(generator, session) || kind == 3) return;  // 3: dropped at once
    if (kind == 4) generator->cancel();
    if (kind == 5) check(generator->next().has_value());
    if (kind > 5) read(*generator, variant);
    const Session back = std::move(*generator).release().value();
    check(back.tokens().size() >= prompt_.size());
    if (kind > 5) check(tests::history(back) == expected_[variant]);
  }

  void several(Session session) {
    Result<std::vector<Generator>> generators = batcher_.submit_many(std::move(session), 3, random_options(answers, 1));
    if (!taken(generators, session)) return;
    generators->erase(generators->begin() + static_cast<std::ptrdiff_t>(1 + random_() % 2));
    read(generators->front(), 1);
  }

  void search(Session session) {
    BeamOptions options;
    options.beams = 3;
    options.max_tokens = 3;
    Result<BeamSearch> found = batcher_.submit_beams(std::move(session), options);
    if (!taken(found, session)) return;
    if (random_() % 3 == 0) found->cancel();
    const Result<std::vector<Hypothesis>> hypotheses = found->wait();
    check(hypotheses ? !hypotheses->empty() : hypotheses.error().code == ErrorCode::cancelled);
    check(std::move(*found).release().value().tokens().size() == prompt_.size());
  }

  void with_callbacks(Session session) {
    const unsigned how = random_() % 4;
    Counts* const counts = &counts_;
    const std::size_t prompt = prompt_.size();
    const auto on_piece = [how](const Piece&) -> bool {
      if (how == 1) throw std::runtime_error("enough");
      return how != 2;
    };
    const auto on_end = [counts, how, prompt](Result<Outcome> outcome, Session back) {
      const bool right = how == 1   ? !outcome && outcome.error().code == ErrorCode::callback_failed
                         : how == 2 ? outcome && outcome->finish == Finish::cancelled
                                    : outcome || outcome.error().code == ErrorCode::cancelled;
      counts->wrong += right && back.tokens().size() >= prompt ? 0 : 1;
      ++counts->ends;
      if (how == 3) throw std::logic_error("dropped");
    };
    const Result<Ticket> ticket = batcher_.submit(std::move(session), random_options(answers, 0), on_piece, on_end);
    if (taken(ticket, session)) ++counts_.callbacks;
  }

  Batcher& batcher_;
  const std::vector<Token>& prompt_;
  const std::vector<std::vector<Token>>& expected_;
  Counts& counts_;
  std::mt19937 random_;
};

void storm(int threads, int each) {
  const Model model = tests::open_tiny();
  BatcherOptions options = tests::small(model, 10);
  options.queue = 24;
  options.pieces_ahead = 4;
  const std::vector<Token> prompt = some_tokens(30, 16);
  std::vector<std::vector<Token>> expected;
  for (unsigned v = 0; v < variants; ++v) {
    expected.push_back(tests::alone(model, prompt, random_options(answers, v)).history);
  }
  Counts counts;
  std::optional<Batcher> batcher = Batcher::start(model, options).value();
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back(
        [&, t] { Thread(*batcher, prompt, expected, counts, static_cast<unsigned>(t) + 1).run(each); });
  }
  for (std::thread& thread : running) thread.join();
  REQUIRE(tests::all_pages_back(*batcher));
  const BatchStats stats = batcher->stats();
  CHECK(counts.wrong == 0);
  CHECK(counts.taken + counts.refused == threads * each);
  CHECK(counts.taken > threads * each / 20);
  CHECK(counts.callbacks == counts.ends);
  CHECK(stats.submitted == stats.completed + stats.cancelled + stats.failed);
  CHECK(stats.submitted >= static_cast<std::uint64_t>(counts.taken));
  batcher.reset();
}

}  // namespace

// All 10,000 where no sanitizer slows them down.
TEST_CASE("a storm of submissions") { storm(32, LLMINFER_TESTS_TINY != 0 ? 30 : 313); }

TEST_CASE("10,000 submissions from 32 threads", "[.long]") { storm(32, 313); }

TEST_CASE("those that wait in next() are woken by the batcher's end") {
  const Model model = tests::open_tiny();
  for (int round = 0; round < 5; ++round) {
    std::optional<Batcher> batcher = Batcher::start(model, tests::small(model, 6)).value();
    std::vector<Generator> generators =
        batcher->submit_many(ready_session(*batcher, some_tokens(60, 16)), 6, random_options(60, 1)).value();
    BeamSearch search = batcher->submit_beams(ready_session(*batcher, some_tokens(60, 16)), {.max_tokens = 60}).value();
    std::atomic<int> ended{0};
    std::vector<std::thread> clients;
    for (Generator& generator : generators) {
      clients.emplace_back([&] {
        while (generator.next().value() != nullptr) {
        }
        ++ended;
      });
    }
    clients.emplace_back([&] {
      static_cast<void>(search.wait());
      ++ended;
    });
    while (batcher->stats().steps < static_cast<std::uint64_t>(3 * round)) std::this_thread::yield();
    batcher.reset();
    for (std::thread& client : clients) client.join();
    CHECK(ended == 7);
    for (Generator& generator : generators) {
      CHECK(std::move(generator).release().value().tokens().size() >= 60);
    }
  }
}
