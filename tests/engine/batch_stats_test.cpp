// Statistics: histograms, rates, the text for Prometheus, and what a running batch reports by a clock of the test.
#include <llminfer/batch_stats.hpp>

#include <atomic>
#include <map>
#include <sstream>

#include "api/batcher_body.h"
#include "batcher_fixture.h"
#include "catch.h"
#include "runtime/rate_window.h"

using namespace llminfer;
using namespace std::chrono_literals;
using tests::random_options;
using tests::ready_session;
using tests::some_tokens;

namespace {

/// Moves by itself a little at every look, and by jumps of the test.
class JumpingClock final : public runtime::Clock {
 public:
  time_point now() const noexcept override {
    return time_point(duration(nanoseconds_.fetch_add(1000, std::memory_order_relaxed)));
  }
  std::chrono::nanoseconds nap(duration) const noexcept override { return 1ms; }
  void jump(std::chrono::nanoseconds by) { nanoseconds_.fetch_add(by.count()); }

 private:
  mutable std::atomic<std::int64_t> nanoseconds_{0};
};

struct Sample {
  std::string labels;
  double value = 0;
};

/// Samples by metric name; requires HELP and TYPE before the first sample of a family, as the format has it.
std::map<std::string, std::vector<Sample>> parse(const std::string& text) {
  std::map<std::string, std::vector<Sample>> out;
  std::istringstream lines(text);
  std::string line, help, family, type;
  while (std::getline(lines, line)) {
    if (line.rfind("# HELP ", 0) == 0) {
      help = line.substr(7, line.find(' ', 7) - 7);
    } else if (line.rfind("# TYPE ", 0) == 0) {
      family = line.substr(7, line.find(' ', 7) - 7);
      type = line.substr(line.rfind(' ') + 1);
      REQUIRE(family == help);
      REQUIRE((type == "gauge" || type == "counter" || type == "histogram"));
      REQUIRE(out.count(family) == 0);
    } else {
      const std::size_t space = line.rfind(' ');
      const std::size_t brace = line.find('{');
      const std::string name = line.substr(0, std::min(brace, space));
      REQUIRE(name.rfind(family, 0) == 0);
      const std::string rest = name.substr(family.size());
      REQUIRE((type == "histogram" ? rest == "_bucket" || rest == "_sum" || rest == "_count" : rest.empty()));
      REQUIRE((type != "counter" || (name.size() > 6 && name.substr(name.size() - 6) == "_total")));
      const std::string labels = brace < space ? line.substr(brace + 1, line.rfind('}') - brace - 1) : "";
      out[name].push_back({labels, std::stod(line.substr(space + 1))});
    }
  }
  REQUIRE(text.back() == '\n');
  return out;
}

void check_histogram(const std::map<std::string, std::vector<Sample>>& metrics, const std::string& name,
                     const DurationHistogram& expected) {
  const std::vector<Sample>& buckets = metrics.at(name + "_bucket");
  REQUIRE(buckets.size() == DurationHistogram::buckets);
  double below = -1, count = 0;
  for (const Sample& bucket : buckets) {
    const std::size_t le = bucket.labels.find("le=\"");
    REQUIRE(le != std::string::npos);
    const std::string bound = bucket.labels.substr(le + 4, bucket.labels.find('"', le + 4) - le - 4);
    const double value = bound == "+Inf" ? INFINITY : std::stod(bound);
    CHECK(value > below);
    CHECK(bucket.value >= count);
    below = value;
    count = bucket.value;
  }
  CHECK(std::isinf(below));
  CHECK(count == static_cast<double>(expected.count()));
  CHECK(metrics.at(name + "_count").front().value == count);
  CHECK(metrics.at(name + "_sum").front().value ==
        Approx(std::chrono::duration<double>(expected.sum).count()).margin(1e-12));
}

}  // namespace

TEST_CASE("durations fall into buckets that double") {
  DurationHistogram h;
  h.add(-5ns);
  h.add(1us);
  CHECK(h.counts[0] == 2);
  h.add(1001ns);
  h.add(2us);
  CHECK(h.counts[1] == 2);
  h.add(2001ns);
  CHECK(h.counts[2] == 1);
  h.add(std::chrono::hours(5));
  CHECK(h.counts.back() == 1);
  CHECK(h.count() == 6);
  CHECK(h.sum == std::chrono::hours(5) + 1us + 1001ns + 2us + 2001ns);
  for (int i = 1; i + 1 < DurationHistogram::buckets; ++i) {
    CHECK(DurationHistogram::upper(i) == 2 * DurationHistogram::upper(i - 1));
  }
  DurationHistogram even;
  CHECK(even.quantile(0.5) == 0ns);
  for (int i = 1; i <= 1000; ++i) even.add(std::chrono::microseconds(i));
  CHECK(std::chrono::duration<double, std::micro>(even.quantile(0.5)).count() == Approx(500).epsilon(0.03));
  CHECK(even.quantile(1) <= DurationHistogram::upper(10));
}

TEST_CASE("a rate is that of the last ten seconds") {
  const runtime::Clock::time_point start(1000s);
  runtime::RateWindow window(start);
  CHECK(window.per_second(start) == 0);
  for (int i = 0; i < 200; ++i) window.add(start + i * 100ms, 10);
  CHECK(window.per_second(start + 20s - 1ns) == Approx(100).epsilon(0.01));
  CHECK(window.per_second(start + 40s) == 0);
  window.add(start - 50s, 7);  // the clock went back: counted at the start, which is long ago
  CHECK(window.per_second(start + 40s) == 0);
  window.add(start + 40s, 90);
  CHECK(window.per_second(start + 41s) == Approx(10).epsilon(0.01));  // nine whole seconds by then
}

TEST_CASE("Prometheus reads the statistics") {
  BatchStats stats;
  stats.queued = 3;
  stats.generated_tokens = 12345678901234ULL;
  stats.generated_per_second = 0.1;
  for (int i = 0; i < 40; ++i) stats.step_time.add(std::chrono::nanoseconds(std::int64_t{777} << i));
  stats.time_to_first_token.add(3ms);
  stats.scheduling = 1500ms;
  const auto metrics = parse(to_prometheus(stats).value());
  CHECK(metrics.at("llminfer_requests_queued").front().value == 3);
  CHECK(metrics.at("llminfer_generated_tokens_total").front().value == 12345678901234.0);
  CHECK(metrics.at("llminfer_generated_tokens_per_second").front().value == 0.1);
  CHECK(metrics.at("llminfer_scheduling_seconds_total").front().value == 1.5);
  check_histogram(metrics, "llminfer_step_seconds", stats.step_time);
  check_histogram(metrics, "llminfer_time_to_first_token_seconds", stats.time_to_first_token);
  check_histogram(metrics, "llminfer_queue_seconds", stats.queue_time);

  const auto labelled = parse(to_prometheus(stats, "app:x", "model=\"a b\"").value());
  CHECK(labelled.at("app:x_requests_queued").front().labels == "model=\"a b\"");
  check_histogram(labelled, "app:x_step_seconds", stats.step_time);
  for (const char* bad : {"", "1a", "a-b", "a b"}) {
    CHECK(to_prometheus(stats, bad).error().code == ErrorCode::invalid_argument);
  }
}

TEST_CASE("a running batch counts what it does") {
  const Model model = tests::open_tiny();
  const auto clock = std::make_shared<JumpingClock>();
  Batcher batcher(std::make_shared<Batcher::Body>(model, tests::small(model, 32), clock));
  std::vector<Generator> generators;
  for (unsigned i = 0; i < 5; ++i) {
    generators.push_back(
        batcher.submit(ready_session(batcher, some_tokens(33, 16, i + 1)), random_options(10, i)).value());
  }
  for (Generator& generator : generators) CHECK(generator.run([](const Piece&) { return true; })->new_tokens == 10);
  generators.clear();
  REQUIRE(tests::all_pages_back(batcher));
  const BatchStats stats = batcher.stats();
  CHECK(stats.submitted == 5);
  CHECK(stats.completed == 5);
  CHECK(stats.generated_tokens == 50);
  CHECK(stats.decode_tokens + stats.prefill_tokens >= 5 * (33 + 9));
  CHECK(stats.queue_time.count() == 5);
  CHECK(stats.time_to_first_token.count() == 5);
  CHECK(stats.time_between_tokens.count() == 45);
  CHECK(stats.step_time.count() == stats.steps);
  CHECK(stats.time_to_first_token.sum > stats.queue_time.sum);
  CHECK(stats.up >= stats.scheduling + stats.sampling + stats.step_time.sum);
  CHECK((stats.scheduling_share() > 0 && stats.scheduling_share() < 1));
  CHECK(stats.generated_per_second > 0);
  clock->jump(20s);
  CHECK(batcher.stats().generated_per_second == 0);
}

TEST_CASE("a clock that jumps ends who is late, and nobody else") {
  const Model model = tests::open_tiny();
  const auto clock = std::make_shared<JumpingClock>();
  BatcherOptions options = tests::small(model, 32);
  options.pieces_ahead = 1;  // they wait for their clients
  Batcher batcher(std::make_shared<Batcher::Body>(model, options, clock));
  const auto submit = [&](std::chrono::nanoseconds whole, std::chrono::nanoseconds first) {
    GenerateOptions generate = random_options(40, 1);
    generate.deadlines = {first, whole};
    return batcher.submit(ready_session(batcher, some_tokens(20, 16)), generate).value();
  };
  Generator free = submit(0s, 0s);
  Generator late = submit(1h, 0s);
  Generator first = submit(0s, 1h);  // has its first token before the jump
  REQUIRE(first.next().value() != nullptr);
  REQUIRE(late.next().value() != nullptr);
  clock->jump(-30min);  // back to before the start: nobody is late
  for (int i = 0; i < 3; ++i) REQUIRE(late.next().value() != nullptr);
  clock->jump(3h);
  const Outcome ended = late.run([](const Piece&) { return true; }).value();
  CHECK(ended.finish == Finish::deadline);
  CHECK(ended.new_tokens < 40);
  CHECK(free.run([](const Piece&) { return true; })->finish == Finish::length);
  CHECK(first.run([](const Piece&) { return true; })->finish == Finish::length);
  // To both ends of time: no overflow, nothing hangs.
  clock->jump(std::chrono::nanoseconds::max() - 4h);
  Generator last = submit(std::chrono::nanoseconds::max(), 1h);
  CHECK(last.run([](const Piece&) { return true; })->finish == Finish::length);
  clock->jump(-(std::chrono::nanoseconds::max() - 1h));
  clock->jump(-(std::chrono::nanoseconds::max() - 1h));
  Generator early = submit(std::chrono::nanoseconds::max(), 1h);
  CHECK(early.run([](const Piece&) { return true; })->finish == Finish::length);
  static_cast<void>(batcher.stats());
}
