#include "core/clock.h"

#include <memory>
#include <thread>

#include "catch.h"

using namespace llminfer::core;

TEST_CASE("the steady clock never goes back and counts nanoseconds") {
  const std::unique_ptr<const Clock> clock = std::make_unique<SteadyClock>();
  std::int64_t last = clock->now_ns();
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t now = clock->now_ns();
    REQUIRE(now >= last);
    last = now;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::int64_t slept = clock->now_ns() - last;
  CHECK(slept >= 5'000'000);
  CHECK(slept < 60'000'000'000);
}

TEST_CASE("a manual clock moves forward when told, and only then") {
  ManualClock clock(100);
  CHECK(clock.now_ns() == 100);
  clock.advance_ns(50);
  clock.advance_ns(-20);
  CHECK(clock.now_ns() == 150);
}
