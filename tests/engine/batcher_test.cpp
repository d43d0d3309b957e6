// Many requests in one batch: the same tokens and logits as alone, whatever happens around them.
#include <llminfer/batcher.hpp>

#include <atomic>
#include <thread>

#include "api/batcher_body.h"
#include "api/session_body.h"
#include "batcher_fixture.h"
#include "catch.h"

using namespace llminfer;
using tests::all_pages_back;
using tests::Alone;
using tests::alone;
using tests::history;
using tests::last_logits;
using tests::open_tiny;
using tests::random_options;
using tests::ready_session;
using tests::small;
using tests::some_tokens;

TEST_CASE("an open batcher refuses what is wrong and keeps the session with its owner") {
  const Model model = open_tiny();
  CHECK(Batcher::start(model, {}).error().code == ErrorCode::invalid_argument);
  BatcherOptions options = small(model, 4);
  options.step_tokens = 65;
  CHECK(Batcher::start(model, options).error().message.find("step_tokens is 65") != std::string::npos);
  options = small(model, 4);
  options.max_sequences = 9;
  CHECK(Batcher::start(model, options).error().code == ErrorCode::invalid_argument);
  options = small(model, 4);
  options.queue = 0;
  CHECK(Batcher::start(model, options).error().code == ErrorCode::invalid_argument);
  options = small(model, 4);
  options.pieces_ahead = 0;
  CHECK(Batcher::start(model, options).error().code == ErrorCode::invalid_argument);

  Batcher batcher = Batcher::start(model, small(model, 3)).value();
  Session session = batcher.open_session().value();
  CHECK(batcher.submit(std::move(session)).error().code == ErrorCode::invalid_argument);  // no tokens
  session.append(some_tokens(100, 16)).value();
  GenerateOptions bad;
  bad.weight = 0;
  CHECK(batcher.submit(std::move(session), bad).error().message.find("weight is 0") != std::string::npos);
  const Result<Generator> too_long = batcher.submit(std::move(session));
  CHECK(too_long.error().code == ErrorCode::out_of_pages);
  CHECK(too_long.error().needed == 4);
  CHECK(session.tokens().size() == 100);
  session.rewind(10).value();
  CHECK(batcher.submit(std::move(session), random_options(3, 1))
            .value()
            .run([](const Piece&) { return true; })
            ->new_tokens == 3);

  Session other = Session::open(open_tiny()).value();
  other.append(some_tokens(5, 16)).value();
  CHECK(batcher.submit(std::move(other)).error().code == ErrorCode::mismatch);
  SessionOptions with_bytes;
  with_bytes.kv_bytes = 1;
  CHECK(batcher.open_session(with_bytes).error().code == ErrorCode::invalid_argument);
  Session solo = Session::open(model).value();
  solo.append(some_tokens(5, 16)).value();
  CHECK(std::move(*solo.generate()).release().error().code == ErrorCode::invalid_argument);
}

TEST_CASE("a session comes back, goes on alone and in another batch") {
  const Model model = open_tiny();
  Batcher batcher = Batcher::start(model, small(model, 16)).value();
  Session solo = Session::open(model).value();  // its pages are elsewhere: computed again in the batcher's
  solo.append(some_tokens(20, 16)).value();
  Generator generator = batcher.submit(std::move(solo), random_options(10, 5)).value();
  for (int i = 0; i < 4; ++i) REQUIRE(generator.next().value() != nullptr);
  Session session = std::move(generator).release().value();
  CHECK(session.tokens().size() == 24);

  // The same by hand.
  Session twin = Session::open(model).value();
  twin.append(session.tokens()).value();
  CHECK(last_logits(session) == last_logits(twin));
  Session fork = session.fork().value();
  Generator second = batcher.submit(std::move(session), random_options(12, 6)).value();
  Generator third = batcher.submit(std::move(fork), random_options(12, 6)).value();
  const Outcome outcome = second.run([](const Piece&) { return true; }).value();
  CHECK(outcome.prompt_tokens == 24);
  CHECK(outcome.reused_tokens == 24);
  CHECK(outcome.new_tokens == 12);
  CHECK(outcome.finish == Finish::length);
  third.run([](const Piece&) { return true; }).value();
  Session a = std::move(second).release().value();
  Session b = std::move(third).release().value();
  CHECK(history(a) == alone(model, history(twin), random_options(12, 6)).history);
  CHECK(history(b) == history(a));
}

TEST_CASE("requests choose what they choose alone, whether others want the best logit, the k best or all") {
  const Model model = open_tiny();
  Batcher batcher = Batcher::start(model, small(model, 64)).value();
  for (const int other : {0, 1, 2}) {
    std::vector<GenerateOptions> options(4);
    for (GenerateOptions& o : options) {
      o.max_tokens = 14;
      o.ignore_end_of_text = true;
    }
    options[1].sampling.banned_tokens = {3, 4, 5, 6, 7, 8};
    options[2].sampling.min_new_tokens = 6;
    if (other > 0) options[3] = random_options(14, 9);
    if (other == 2) options[3].sampling.top_k = 5;
    if (other == 2) options[2].sampling.temperature = 1.2F;
    if (other == 2) options[2].sampling.top_k = 3;
    std::vector<Generator> generators;
    for (std::size_t i = 0; i < options.size(); ++i) {
      const std::vector<Token> prompt = some_tokens(6 + static_cast<int>(i), 16, static_cast<std::uint32_t>(i));
      generators.push_back(batcher.submit(ready_session(batcher, prompt), options[i]).value());
    }
    for (std::size_t i = 0; i < options.size(); ++i) {
      generators[i].run([](const Piece&) { return true; }).value();
      const Session session = std::move(generators[i]).release().value();
      GenerateOptions all = options[i];
      all.logprobs = true;  // the host reads all logits
      const std::vector<Token> prompt = some_tokens(6 + static_cast<int>(i), 16, static_cast<std::uint32_t>(i));
      CHECK(history(session) == alone(model, prompt, all).history);
    }
  }
}

TEST_CASE("a client that never reads pauses itself alone") {
  const Model model = open_tiny();
  BatcherOptions options = small(model, 8);
  options.pieces_ahead = 3;
  options.max_sequences = 2;
  Batcher batcher = Batcher::start(model, options).value();
  const std::vector<Token> prompt = some_tokens(40, 16);
  std::vector<Generator> unread;
  for (int i = 0; i < 4; ++i)
    unread.push_back(batcher.submit(ready_session(batcher, prompt), random_options(60, 9)).value());
  for (int i = 0; i < 6; ++i) {
    Generator other = batcher.submit(ready_session(batcher, prompt), random_options(30, 2)).value();
    CHECK(other.run([](const Piece&) { return true; })->new_tokens == 30);
  }
  const Alone expected = alone(model, prompt, random_options(60, 9));
  for (Generator& generator : unread) {  // and then gets everything
    std::vector<Token> got = prompt;
    while (const Piece* piece = generator.next().value()) got.push_back(piece->token);
    CHECK(got == expected.history);
  }
  unread.clear();
  CHECK(all_pages_back(batcher));
}

TEST_CASE("a client that never reads keeps no other from the memory for swapped pages") {
  const Model model = open_tiny();
  BatcherOptions options = small(model, 6);
  options.pieces_ahead = 1;
  options.swap_bytes = tests::kv_bytes(model, 6);
  Batcher batcher(
      std::make_shared<Batcher::Body>(model, options, std::make_shared<const runtime::SteadyClock>(), true));
  const std::vector<Token> unread_prompt = some_tokens(70, 16);
  Generator unread = batcher.submit(ready_session(batcher, unread_prompt), random_options(20, 9)).value();
  while (batcher.stats().generated_tokens < 2) std::this_thread::yield();

  // Pushes it out into three of the six slots, and is then pushed out itself, with four pages.
  std::atomic<int> tokens{0}, ends{0};
  const auto on_end = [&](Result<Outcome> outcome, Session) { ends += outcome && outcome->new_tokens == 20 ? 1 : 100; };
  GenerateOptions urgent = random_options(20, 3);
  urgent.priority = 5;
  const auto on_piece = [&](const Piece&) {
    if (++tokens == 5) {
      static_cast<void>(batcher.submit(
          ready_session(batcher, some_tokens(100, 16, 3)), urgent, [](const Piece&) { return true; }, on_end));
    }
    return true;
  };
  static_cast<void>(
      batcher.submit(ready_session(batcher, some_tokens(100, 16)), random_options(20, 2), on_piece, on_end));
  while (ends < 2) std::this_thread::yield();
  CHECK(ends == 2);
  CHECK(batcher.stats().swapped_out == 2);
  CHECK(batcher.stats().swapped_in == 1);

  std::vector<Token> got = unread_prompt;
  while (const Piece* piece = unread.next().value()) got.push_back(piece->token);
  CHECK(got == alone(model, unread_prompt, random_options(20, 9)).history);
}

TEST_CASE("the queue has its bound") {
  const Model model = open_tiny();
  BatcherOptions options = small(model, 64);
  options.queue = 2;
  options.max_sequences = 1;
  options.pieces_ahead = 1;
  Batcher batcher = Batcher::start(model, options).value();
  std::vector<Generator> generators;
  bool full = false;
  for (int i = 0; i < 100 && !full; ++i) {
    Session session = ready_session(batcher, some_tokens(60, 16));
    Result<Generator> generator = batcher.submit(std::move(session), random_options(60, 1));
    if (generator) {
      generators.push_back(std::move(*generator));
    } else {
      CHECK(generator.error().code == ErrorCode::queue_full);
      CHECK(session.tokens().size() == 60);
      full = true;
    }
  }
  CHECK(full);
  for (Generator& generator : generators) CHECK(generator.run([](const Piece&) { return true; })->new_tokens == 60);
}

TEST_CASE("deadlines count from submission and end one request") {
  const Model model = open_tiny();
  Batcher batcher = Batcher::start(model, small(model, 16)).value();
  GenerateOptions hurried = random_options(100, 1);
  hurried.deadlines.whole = std::chrono::nanoseconds(1);
  Generator late = batcher.submit(ready_session(batcher, some_tokens(50, 16)), hurried).value();
  Generator fine = batcher.submit(ready_session(batcher, some_tokens(50, 16)), random_options(20, 1)).value();
  CHECK(late.run([](const Piece&) { return true; })->finish == Finish::deadline);
  CHECK(fine.run([](const Piece&) { return true; })->finish == Finish::length);

  // One that waits for its client wakes up for its deadline.
  BatcherOptions options = small(model, 16);
  options.pieces_ahead = 1;
  Batcher other = Batcher::start(model, options).value();
  GenerateOptions patient = random_options(50, 1);
  patient.deadlines.whole = std::chrono::milliseconds(300);
  Generator paused = other.submit(ready_session(other, some_tokens(5, 16)), patient).value();
  for (int i = 0; i < 2000 && other.stats().completed == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK(paused.run([](const Piece&) { return true; })->finish == Finish::deadline);
}

TEST_CASE("callbacks get the pieces, the end and the session; what they throw is their own") {
  const Model model = open_tiny();
  Batcher batcher = Batcher::start(model, small(model, 16)).value();
  const std::vector<Token> prompt = some_tokens(30, 16);
  struct Got {
    std::vector<Token> pieces;
    std::optional<Result<Outcome>> end;
    std::optional<Session> session;
    std::atomic<bool> ended{false};
  };
  Got good, throwing, stopping, ticketed;
  const auto submit = [&](Got& got, int tokens, std::function<bool(const Piece&)> after) {
    return batcher
        .submit(
            ready_session(batcher, prompt), random_options(tokens, 4),
            [&got, after = std::move(after)](const Piece& piece) {
              got.pieces.push_back(piece.token);
              return after(piece);
            },
            [&got](Result<Outcome> outcome, Session session) {
              got.end = std::move(outcome);
              got.session = std::move(session);
              got.ended = true;
              throw std::runtime_error("dropped");
            })
        .value();
  };
  submit(good, 25, [](const Piece&) { return true; });
  submit(throwing, 25, [&](const Piece&) -> bool {
    if (throwing.pieces.size() == 3) throw std::runtime_error("no more");
    return true;
  });
  submit(stopping, 25, [&](const Piece&) { return stopping.pieces.size() < 4; });
  std::optional<Ticket> ticket;
  std::atomic<bool> has_ticket{false};
  ticket = submit(ticketed, 2000, [&](const Piece&) {
    if (has_ticket) ticket->cancel();
    return true;
  });
  has_ticket = true;
  for (const Got* got : {&good, &throwing, &stopping, &ticketed}) {
    for (int i = 0; i < 5000 && !got->ended; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    REQUIRE(got->ended);
    CHECK(history(*got->session).size() == prompt.size() + got->pieces.size());
  }
  CHECK((*good.end)->finish == Finish::length);
  CHECK(history(*good.session) == alone(model, prompt, random_options(25, 4)).history);
  CHECK(throwing.end->error().code == ErrorCode::callback_failed);
  CHECK(throwing.end->error().message.find("no more") != std::string::npos);
  CHECK(throwing.pieces.size() == 3);
  CHECK((*stopping.end)->finish == Finish::cancelled);
  CHECK(stopping.pieces.size() == 4);
  CHECK(((*ticketed.end)->finish == Finish::cancelled || (*ticketed.end)->finish == Finish::context_full));
}

TEST_CASE("a dropped generator returns its pages at every step") {
  const Model model = open_tiny();
  Batcher batcher = Batcher::start(model, small(model, 16)).value();
  for (int read = 0; read < 12; ++read) {
    Generator generator = batcher.submit(ready_session(batcher, some_tokens(100, 16)), random_options(20, 1)).value();
    for (int i = 1; i < read; ++i) REQUIRE(generator.next().value() != nullptr);
    if (read % 3 == 0) generator.cancel();
    if (read % 3 == 0) CHECK(generator.next().value() == nullptr);
  }
  CHECK(all_pages_back(batcher));
  Generator next = batcher.submit(ready_session(batcher, some_tokens(100, 16)), random_options(20, 1)).value();
  CHECK(next.run([](const Piece&) { return true; })->new_tokens == 20);
}

TEST_CASE("a request that outgrows the pool ends with an error, its history kept") {
  const Model model = open_tiny();
  Batcher batcher = Batcher::start(model, small(model, 2)).value();
  Generator generator = batcher.submit(ready_session(batcher, some_tokens(50, 16)), random_options(60, 1)).value();
  int pieces = 0;
  Result<const Piece*> piece = generator.next();
  for (; piece && *piece != nullptr; piece = generator.next()) ++pieces;
  REQUIRE_FALSE(piece);
  CHECK(piece.error().code == ErrorCode::out_of_pages);
  CHECK(pieces >= 14);
  CHECK(generator.next().value() == nullptr);
  Session session = std::move(generator).release().value();
  CHECK(session.tokens().size() == 50 + static_cast<std::size_t>(pieces));
}

TEST_CASE("destruction ends requests in flight as cancelled") {
  const Model model = open_tiny();
  for (int round = 0; round < 10; ++round) {
    std::optional<Batcher> batcher = Batcher::start(model, small(model, 8)).value();
    std::vector<Generator> generators;
    std::atomic<int> ends{0};
    for (int i = 0; i < 12; ++i) {
      generators.push_back(
          batcher->submit(ready_session(*batcher, some_tokens(60, 16)), random_options(60, 1)).value());
      const auto ticket = batcher->submit(
          ready_session(*batcher, some_tokens(60, 16)), random_options(60, 1), [](const Piece&) { return true; },
          [&](Result<Outcome> outcome, Session session) {
            if (outcome && session.tokens().size() >= 60) ++ends;
          });
      REQUIRE(ticket);
    }
    for (int i = 0; i < round; ++i) REQUIRE(generators.front().next());
    batcher.reset();
    CHECK(ends == 12);
    for (Generator& generator : generators) {
      while (generator.next().value() != nullptr) {
      }
      CHECK((generator.outcome().finish == Finish::cancelled || generator.outcome().finish == Finish::length));
      CHECK(std::move(generator).release().value().tokens().size() >= 60);
    }
  }
}

TEST_CASE("sessions of the batcher's memory are used beside its steps") {
  const Model model = open_tiny();
  Batcher batcher = Batcher::start(model, small(model, 60)).value();
  std::atomic<bool> stop{false};
  std::atomic<int> ends{0};
  const std::vector<Token> prompt = some_tokens(30, 16);
  const std::function<void()> again = [&] {  // requests follow each other, so that steps never pause
    if (stop) return;
    const auto ticket = batcher.submit(
        ready_session(batcher, prompt), random_options(60, 3), [](const Piece&) { return true; },
        [&](Result<Outcome>, Session) {
          ++ends;
          again();
        });
    static_cast<void>(ticket);
  };
  for (int i = 0; i < 4; ++i) again();
  Session session = ready_session(batcher, prompt);
  session.prefill().value();
  const std::vector<float> expected(session.logits().begin(), session.logits().end());
  const std::uint64_t before = batcher.stats().steps;
  for (int i = 0; i < 20; ++i) {
    Session fork = session.fork().value();
    fork.rewind(10).value();
    fork.append(std::span(prompt).subspan(10)).value();
    CHECK(last_logits(fork) == expected);
  }
  // Five turns at the lock each; without a right of way it could be thousands of steps.
  CHECK(batcher.stats().steps - before < 2000);
  stop = true;
  session.rewind(0).value();
  CHECK(all_pages_back(batcher));
}

TEST_CASE("submissions from several threads") {
  const Model model = open_tiny();
  BatcherOptions options = small(model, 12);
  options.queue = 16;
  Batcher batcher = Batcher::start(model, options).value();
  std::atomic<int> wrong{0}, completed{0}, refused{0};
  const std::vector<Token> prompt = some_tokens(30, 16);
  const std::vector<Token> expected = alone(model, prompt, random_options(12, 3)).history;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        Session session = ready_session(batcher, prompt);
        Result<Generator> generator = batcher.submit(std::move(session), random_options(12, 3));
        if (!generator) {
          wrong += generator.error().code == ErrorCode::queue_full ? 0 : 1;
          ++refused;
          continue;
        }
        if ((i + t) % 5 == 0) continue;  // dropped at once
        if ((i + t) % 5 == 1) generator->cancel();
        int pieces = 0;
        while (const Piece* piece = generator->next().value()) {
          wrong += piece->token == expected[prompt.size() + static_cast<std::size_t>(pieces)] ? 0 : 1;
          ++pieces;
        }
        if ((i + t) % 5 != 1) wrong += pieces == 12 ? 0 : 1;
        const Session back = std::move(*generator).release().value();
        wrong += back.tokens().size() == prompt.size() + static_cast<std::size_t>(pieces) ? 0 : 1;
        ++completed;
        static_cast<void>(batcher.stats());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(completed + refused >= 6 * 32);
  CHECK(completed > 0);
  CHECK(all_pages_back(batcher));
  const BatchStats stats = batcher.stats();
  CHECK(stats.submitted == stats.completed + stats.cancelled + stats.failed);
}
