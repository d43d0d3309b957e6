#include "core/thread_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <llminfer/error.hpp>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

using namespace llminfer;
using namespace llminfer::core;

namespace {

template <class F>
Error error_of(F&& call) {
  try {
    call();
  } catch (const Exception& exception) {
    return exception.error();
  }
  return Error{ErrorCode::cancelled, "nothing was thrown", "", 0, 0};
}

}  // namespace

#if !defined(SANITIZED)  // they replace these themselves
namespace {
std::atomic<long> allocations{0};
}

// Counts what the process allocates, to show that a run allocates nothing.
void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const pointer = std::malloc(bytes == 0 ? 1 : bytes)) return pointer;
  throw std::bad_alloc();
}
void operator delete(void* pointer) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::size_t) noexcept { std::free(pointer); }
#endif

TEST_CASE("every thread runs once and its writes are seen after") {
  for (const int threads : {1, 2, 3, 4, 9}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    std::vector<int> counts(static_cast<std::size_t>(threads), 0);
    int wrong_total = 0;
    for (int round = 0; round < 200; ++round) {
      std::atomic<int> different{0};
      parallel(pool, [&](int thread, int total) noexcept {
        ++counts[static_cast<std::size_t>(thread)];
        if (total != threads) different.fetch_add(1);
      });
      wrong_total += different.load();
    }
    CHECK(wrong_total == 0);
    for (const int count : counts) CHECK(count == 200);
  }
}

TEST_CASE("thread 0 is the caller") {
  ThreadPool pool(3);
  std::vector<std::thread::id> ids(3);
  parallel(pool, [&](int thread, int) noexcept { ids[static_cast<std::size_t>(thread)] = std::this_thread::get_id(); });
  CHECK(ids[0] == std::this_thread::get_id());
  CHECK(ids[1] != ids[0]);
  CHECK(ids[1] != ids[2]);
}

// Each phase every thread replaces its number by the sum of all. A thread that ran ahead or saw an old value would
// make the sums differ. The numbers are plain, so the thread sanitizer sees any missing order.
TEST_CASE("barriers separate phases, also with more threads than cores") {
  for (const int threads : {2, 4, 8}) {
    ThreadPool pool(threads);
    const auto count = static_cast<std::size_t>(threads);
    std::vector<std::uint64_t> now(count, 1), next(count, 0);
    constexpr int phases = 300;
    for (int run = 0; run < 5; ++run) {
      parallel(pool, [&](int thread, int) noexcept {
        const auto own = static_cast<std::size_t>(thread);
        for (int phase = 0; phase < phases; ++phase) {
          std::uint64_t sum = own;
          for (const std::uint64_t value : now) sum += value;
          next[own] = sum;
          pool.barrier(thread);
          now[own] = next[own];
          pool.barrier(thread);
        }
      });
    }
    std::vector<std::uint64_t> expected(count, 1);
    for (int phase = 0; phase < 5 * phases; ++phase) {
      const std::uint64_t sum = std::accumulate(expected.begin(), expected.end(), std::uint64_t{0});
      for (std::size_t i = 0; i < count; ++i) expected[i] = sum + i;
    }
    CHECK(now == expected);
  }
}

TEST_CASE("barriers separate phases while strangers keep all cores busy, which makes waiting threads sleep") {
  std::atomic<bool> stop{false};
  std::vector<std::thread> strangers;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    strangers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
      }
    });
  }
  constexpr int rounds = 300;
  for (const int threads : {2, 5}) {
    ThreadPool pool(threads);
    std::vector<int> counts(static_cast<std::size_t>(threads), 0);  // written by their owners, read by all after it
    std::atomic<int> wrong{0};
    for (int run = 0; run < 3; ++run) {
      std::fill(counts.begin(), counts.end(), 0);
      parallel(pool, [&](int thread, int) noexcept {
        for (int round = 1; round <= rounds; ++round) {
          counts[static_cast<std::size_t>(thread)] = round;
          pool.barrier(thread);
          for (const int count : counts) wrong += count == round ? 0 : 1;
          pool.barrier(thread);
        }
      });
    }
    CHECK(wrong == 0);
  }
  stop = true;
  for (std::thread& stranger : strangers) stranger.join();
}

TEST_CASE("callers on several threads take turns") {
  ThreadPool pool(3);
  long plain_counter = 0;  // only turns keep this right
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        parallel(pool, [&](int thread, int threads) noexcept {
          for (int turn = 0; turn < threads; ++turn) {
            if (turn == thread) ++plain_counter;
            pool.barrier(thread);
          }
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(plain_counter == 4 * 200 * 3);
}

TEST_CASE("workers sleep when nothing comes, and wake") {
  ThreadPool pool(4);
  std::atomic<int> ran{0};
  const auto count = [&](int, int) noexcept { ran.fetch_add(1); };
  for (int i = 0; i < 5; ++i) {
    parallel(pool, count);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CHECK(ran.load() == 20);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double cpu_seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  CHECK(cpu_seconds < 0.15);  // three spinning workers would take 0.3 s or more
  parallel(pool, count);
  CHECK(ran.load() == 24);
}

TEST_CASE("pools come and go, used or not") {
  for (int i = 0; i < 50; ++i) {
    ThreadPool unused(1 + i % 5);
    ThreadPool used(2);
    std::atomic<int> ran{0};
    parallel(used, [&](int, int) noexcept { ran.fetch_add(1); });
    REQUIRE(ran.load() == 2);
  }
}

TEST_CASE("numbers of threads that make no sense are errors") {
  for (const int threads : {0, -1, ThreadPool::max_threads + 1, -2147483647 - 1}) {
    const Error error = error_of([&] { ThreadPool pool(threads); });
    CHECK(error.code == ErrorCode::invalid_argument);
    CHECK(error.message.find(std::to_string(threads)) != std::string::npos);
  }
}

#if !defined(SANITIZED)
TEST_CASE("a run allocates nothing") {
  ThreadPool pool(4);
  std::vector<double> numbers(1000, 1.0);
  std::atomic<std::int64_t> total{0};
  const long before = allocations.load();
  for (int i = 0; i < 50; ++i) {
    parallel(pool, [&](int thread, int threads) noexcept {
      const Share share = share_of(static_cast<std::int64_t>(numbers.size()), thread, threads);
      pool.barrier(thread);
      total.fetch_add(share.end - share.begin);
    });
  }
  const long after = allocations.load();
  CHECK(after == before);
  CHECK(total.load() == 50000);
}

// Not sanitized: they need terabytes of address space.
TEST_CASE("threads that the system refuses are an error, and the ones it gave are gone") {
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  struct rlimit small = before;
  small.rlim_cur = rlim_t{2} << 30;  // a thread's stack takes 8 MiB of address space by default
  REQUIRE(::setrlimit(RLIMIT_AS, &small) == 0);
  const Error error = error_of([] { ThreadPool pool(ThreadPool::max_threads); });
  REQUIRE(::setrlimit(RLIMIT_AS, &before) == 0);
  CHECK((error.code == ErrorCode::unavailable || error.code == ErrorCode::cancelled));
  if (error.code == ErrorCode::cancelled) WARN("stacks are small here: nothing was refused");
  ThreadPool pool(4);
  std::atomic<int> ran{0};
  parallel(pool, [&](int, int) noexcept { ran.fetch_add(1); });
  CHECK(ran.load() == 4);
}
#endif

TEST_CASE("shares cover everything once, in order, cut at grains") {
  int wrong = 0;
  for (const std::int64_t count : {0, 1, 7, 64, 100, 1023}) {
    for (const int threads : {1, 2, 3, 8, 200}) {
      for (const std::int64_t grain : {1, 4, 32}) {
        std::int64_t position = 0, smallest = count + 1, largest = 0;
        for (int thread = 0; thread < threads; ++thread) {
          const Share share = share_of(count, thread, threads, grain);
          wrong += share.begin == position && share.end >= share.begin ? 0 : 1;
          wrong += share.end % grain == 0 || share.end == count ? 0 : 1;
          position = share.end;
          smallest = std::min(smallest, share.end - share.begin);
          largest = std::max(largest, share.end - share.begin);
        }
        wrong += position == count ? 0 : 1;
        wrong += largest - smallest <= 2 * grain - 1 ? 0 : 1;  // the last grain may be a part of one
      }
    }
  }
  CHECK(wrong == 0);
}
