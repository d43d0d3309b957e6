// Claims: whoever takes what, each position is taken once.
#include "device/cpu/claims.h"

#include <array>
#include <thread>
#include <vector>

#include "catch.h"

namespace llminfer::cpu::test {
namespace {

constexpr int most_threads = 5;

struct alignas(64) Cursors {
  std::array<std::byte, most_threads * line_bytes> bytes{};
};

struct Work {
  std::int64_t total;
  ClaimSize size;
};
const std::vector<Work> works{{0, {}},           {1, {}},           {2, {1, 4}},         {1000, {}},
                              {1000, {1, 4, 8}}, {1000, {16, 32}},  {999, {16, 32, 96}}, {4864, {32, 96, 288}},
                              {7, {16, 16}},     {100, {128, 128}}, {3, {1, 1, 1}}};

/// All parts that a thread gets if it goes on to the end.
std::vector<core::Share> all_of(Claims claims) {
  std::vector<core::Share> parts;
  for (core::Share part = claims.next(); part.begin < part.end; part = claims.next()) parts.push_back(part);
  return parts;
}

TEST_CASE("a thread begins with its share and does those of all who do not come") {
  Cursors cursors;
  Claims::forget(cursors.bytes.data(), most_threads);
  std::uint32_t phase = 0;
  for (const Work& work : works) {
    for (int threads = 1; threads <= most_threads; ++threads) {
      for (int thread = 0; thread < threads; ++thread) {
        INFO(work.total << " of grain " << work.size.grain << ", thread " << thread << " of " << threads);
        const core::Share own = core::share_of(work.total, thread, threads, work.size.grain);
        const auto parts = all_of({cursors.bytes.data(), ++phase, thread, threads, work.total, work.size});
        std::int64_t sum = 0, at = own.begin;
        for (const core::Share& part : parts) {
          if (at == own.end) at = part.begin;  // through with its own
          REQUIRE(part.begin % work.size.grain == 0);
          REQUIRE(part.end - part.begin <= work.size.most);
          if (sum < own.end - own.begin) REQUIRE((part.begin == at && part.end <= own.end));
          at = part.end;
          sum += part.end - part.begin;
        }
        REQUIRE(sum == work.total);
      }
    }
  }
}

TEST_CASE("of little each thread does its share and nothing else") {
  Cursors cursors;
  const ClaimSize size = ClaimSize{4, 8}.for_all(24, 3);
  CHECK(size.fixed);
  CHECK_FALSE(ClaimSize{4, 8}.for_all(25, 3).fixed);
  for (int thread = 0; thread < 3; ++thread) {
    const auto parts = all_of({cursors.bytes.data(), 1, thread, 3, 24, size});
    REQUIRE(parts.size() == 1);
    CHECK((parts[0].begin == 8 * thread && parts[0].end == 8 * thread + 8));
  }
}

TEST_CASE("parts are long at first and short in the end") {
  Cursors cursors;
  Claims claims(cursors.bytes.data(), 1, 0, 2, 2000, {1, 10, 400});
  std::vector<std::int64_t> lengths;
  for (core::Share part = claims.next(); part.begin < part.end; part = claims.next()) {
    lengths.push_back(part.end - part.begin);
    if (part.begin < 1000) CHECK(claims.behind() == 1000 - part.end);
    if (part.begin >= 1000) CHECK(claims.behind() == 0);  // its owner goes on there
  }
  const std::vector<std::int64_t> expected{400, 310, 150, 80, 40, 20, 400, 310, 150, 80, 40, 20};
  CHECK(lengths == expected);
}

TEST_CASE("threads that take parts at the same time never take the same, in any of many phases") {
  for (int threads : {2, most_threads}) {
    core::ThreadPool pool(threads);
    Cursors cursors;
    constexpr std::int64_t total = 5000;
    constexpr std::uint32_t phases = 300;
    std::vector<std::atomic<int>> taken(total);
    std::atomic<bool> wrong{false};
    core::parallel(pool, [&](int thread, int count) noexcept {
      for (std::uint32_t phase = 1; phase <= phases; ++phase) {
        Claims claims(cursors.bytes.data(), phase, thread, count, total, {1, 1 + phase % 7});
        for (core::Share part = claims.next(); part.begin < part.end; part = claims.next()) {
          for (std::int64_t i = part.begin; i < part.end; ++i) {
            taken[static_cast<std::size_t>(i)].fetch_add(1, std::memory_order_relaxed);
          }
          if (static_cast<int>(phase) % count == thread) std::this_thread::yield();  // a slow one
        }
        pool.barrier(thread);
        const core::Share share = core::share_of(total, thread, count);
        for (std::int64_t i = share.begin; i < share.end; ++i) {
          if (taken[static_cast<std::size_t>(i)].load(std::memory_order_relaxed) != static_cast<int>(phase))
            wrong = true;
        }
        pool.barrier(thread);
      }
    });
    CHECK_FALSE(wrong);
  }
}

}  // namespace
}  // namespace llminfer::cpu::test
