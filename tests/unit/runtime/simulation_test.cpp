// The parts of the simulator that can be wrong on their own: traffic, quantiles, time series.
#include <algorithm>
#include <cmath>
#include <vector>

#include "catch.h"
#include "runtime/simulation/log_histogram.h"
#include "runtime/simulation/timeline.h"
#include "runtime/simulation/traffic_source.h"

using namespace llminfer;
using namespace llminfer::runtime::simulation;

namespace {

std::vector<Arrival> all(const Traffic& traffic, std::int32_t context = 1 << 20) {
  std::vector<Arrival> out;
  for (TrafficSource source(traffic, context); !source.done(); source.pop()) out.push_back(source.next());
  return out;
}

struct Moments {
  double mean = 0, deviation = 0;
};

Moments moments(const std::vector<double>& values) {
  Moments m;
  for (const double v : values) m.mean += v / static_cast<double>(values.size());
  for (const double v : values) m.deviation += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
  m.deviation = std::sqrt(m.deviation);
  return m;
}

std::vector<double> gaps(const std::vector<Arrival>& arrivals) {
  std::vector<double> out;
  for (std::size_t i = 1; i < arrivals.size(); ++i) {
    out.push_back(1e-9 * static_cast<double>(arrivals[i].time_ns - arrivals[i - 1].time_ns));
  }
  return out;
}

Error error_of(const Traffic& traffic) {
  try {
    TrafficSource(traffic, 1024);
  } catch (const Exception& e) {
    return e.error();
  }
  FAIL("accepted");
  return {};
}

}  // namespace

TEST_CASE("arrivals have the rate and the burstiness that were asked for") {
  for (const double burstiness : {0.0, 1.0, 4.0}) {
    Traffic traffic;
    traffic.requests = 200'000;
    traffic.rate = 5;
    traffic.burstiness = burstiness;
    const Moments m = moments(gaps(all(traffic)));
    CHECK(m.mean == Approx(0.2).epsilon(0.05));
    CHECK(m.deviation / m.mean == Approx(burstiness).epsilon(0.05).margin(1e-6));
  }
}

TEST_CASE("lengths are log-normal, and cut to the context") {
  Traffic traffic;
  traffic.requests = 50'000;
  std::vector<double> logs;
  for (const Arrival& a : all(traffic)) logs.push_back(std::log(a.prompt));
  CHECK(moments(logs).mean == Approx(std::log(traffic.prompt.median)).epsilon(0.01));
  CHECK(moments(logs).deviation == Approx(traffic.prompt.sigma).epsilon(0.02));
  traffic.prefix_share = 0.5;
  traffic.prefix_tokens = 400;
  bool cut = false;
  for (const Arrival& a : all(traffic, 512)) {
    REQUIRE(a.prompt >= 1);
    REQUIRE(a.output >= 1);
    REQUIRE(a.output <= 256);
    REQUIRE(a.prompt + a.output <= 512);
    REQUIRE(a.prefix_tokens < a.prompt);
    cut = cut || a.prompt + a.output == 512;
  }
  CHECK(cut);
}

TEST_CASE("the rate swings over the day and keeps its mean") {
  Traffic traffic;
  traffic.requests = 86'400;
  traffic.rate = 1;
  traffic.daily_swing = 0.5;
  int morning = 0;
  const std::vector<Arrival> arrivals = all(traffic);
  for (const Arrival& a : arrivals) morning += a.time_ns < 43'200'000'000'000 ? 1 : 0;
  // The integral of 1 + sin / 2 over the first half of the day.
  CHECK(morning == Approx(43'200 * (1 + 1 / 3.14159265)).epsilon(0.02));
  CHECK(1e-9 * static_cast<double>(arrivals.back().time_ns) == Approx(86'400).epsilon(0.02));
}

TEST_CASE("traffic repeats for a seed, and prompts share nothing but their prefixes") {
  Traffic traffic;
  traffic.requests = 400;
  traffic.prefix_share = 0.5;
  traffic.prefixes = 2;
  traffic.prefix_tokens = 100;
  const std::vector<Arrival> first = all(traffic);
  const std::vector<Arrival> second = all(traffic);
  std::vector<Token> a;
  std::vector<Token> b;
  int pairs = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(first[i].time_ns == second[i].time_ns);
    fill_prompt(first[i], 50'000, a);
    fill_prompt(second[i], 50'000, b);
    CHECK(a == b);
    if (i == 0) continue;
    fill_prompt(first[i - 1], 50'000, b);
    const auto until =
        static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
    const bool shared = first[i].prefix >= 0 && first[i].prefix == first[i - 1].prefix;
    CHECK((until >= 100) == shared);
    pairs += shared ? 1 : 0;
  }
  CHECK(pairs > 10);
  traffic.seed = 2;
  CHECK(all(traffic)[5].time_ns != first[5].time_ns);
}

TEST_CASE("traffic out of range is refused by field and value") {
  Traffic traffic;
  traffic.rate = 0;
  CHECK(error_of(traffic).message.find("Traffic::rate is 0") != std::string::npos);
  traffic.rate = std::nan("");
  CHECK(error_of(traffic).code == ErrorCode::invalid_argument);
  traffic = {};
  traffic.prefix_share = 1.5;
  CHECK(error_of(traffic).message.find("Traffic::prefix_share is 1.5") != std::string::npos);
  traffic = {};
  traffic.requests = 0;
  CHECK(error_of(traffic).message.find("Traffic::requests is 0") != std::string::npos);
  traffic = {};
  traffic.output.sigma = -1;
  CHECK(error_of(traffic).message.find("Traffic::output.sigma is -1") != std::string::npos);
}

TEST_CASE("quantiles of a histogram are within 0.8 % of the sorted values'") {
  Random random(3);
  LogHistogram histogram;
  std::vector<double> values;
  for (int i = 0; i < 100'000; ++i) {
    const auto ns = static_cast<std::int64_t>(std::exp(3 * random.normal() + 12));
    histogram.add(ns);
    values.push_back(1e-9 * static_cast<double>(ns));
  }
  std::sort(values.begin(), values.end());
  const Quantiles q = histogram.quantiles();
  CHECK(q.p50 == Approx(values[50'000]).epsilon(0.008));
  CHECK(q.p95 == Approx(values[95'000]).epsilon(0.008));
  CHECK(q.p99 == Approx(values[99'000]).epsilon(0.008));
  CHECK(q.most == Approx(values.back()));
  CHECK(q.mean == Approx(moments(values).mean));
  LogHistogram small;
  CHECK(small.quantiles().p99 == Approx(0));
  for (const std::int64_t ns : {1, 2, 3, 4, 100}) small.add(ns);
  CHECK(small.quantiles().p50 == Approx(3e-9));
  small.add(std::numeric_limits<std::int64_t>::max());
  CHECK(small.quantiles().most == Approx(9.22e9).epsilon(0.01));
}

TEST_CASE("a timeline keeps means however long it gets") {
  Timeline timeline;
  timeline.add(0, {});
  Random random(5);
  std::int64_t now = 0;
  double weighted = 0;
  for (int i = 0; i < 100'000; ++i) {
    const auto step = static_cast<std::int64_t>(random.below(50'000'000));
    const auto queued = static_cast<double>(random.below(10));
    now += step;
    weighted += static_cast<double>(step) * queued;
    timeline.add(now, {0.25, 2, queued});
  }
  const TimelineState mean = timeline.mean();
  CHECK(mean.queued == Approx(weighted / static_cast<double>(now)));
  CHECK(mean.page_share == Approx(0.25));
  const std::vector<SimulationMoment> moments = timeline.moments();
  CHECK(moments.size() <= 256);
  CHECK(moments.size() > 100);
  for (const SimulationMoment& m : moments) CHECK(m.running == Approx(2));
}
