#include "profile/cost_model.h"

#include "catch.h"
#include "made_ceilings.h"
#include "profile/ceilings_json.h"
#include "profile/span_split.h"
#include "profile/step_forecast.h"
#include "profile/synthetic.h"

using namespace llminfer;
using profile::CostModel;

namespace {

Ceilings calibrated() {
  Ceilings c = tests::made_ceilings();
  c.efficiencies = {{KernelFamily::matmul, WeightType::q8_0, 1, 0, 512, 0.8},
                    {KernelFamily::matmul, WeightType::q8_0, 16, 0, 512, 0.4},
                    {KernelFamily::matmul, WeightType::q8_0, 1, 0, 2048, 0.6},
                    {KernelFamily::matmul, WeightType::q8_0, 16, 0, 2048, 0.4},
                    {KernelFamily::matmul, WeightType::q4_0, 1, 0, 512, 0.6},
                    {KernelFamily::attention, WeightType::as_stored, 1, 127, 2, 0.2},
                    {KernelFamily::attention, WeightType::as_stored, 1, 2047, 2, 0.6},
                    {KernelFamily::attention, WeightType::as_stored, 1, 127, 8, 0.4},
                    {KernelFamily::attention, WeightType::as_stored, 1, 2047, 8, 0.8},
                    {KernelFamily::attention, WeightType::as_stored, 512, 0, 2, 0.5},
                    {KernelFamily::rows, WeightType::as_stored, 1, 0, 0, 0.1}};
  return c;
}

}  // namespace

TEST_CASE("shares lie between their classes") {
  const CostModel model(calibrated());
  const auto matmul = [&](WeightType type, double tokens, double width = 512) {
    return model.share({KernelFamily::matmul, type, tokens, 0, width}, false);
  };
  CHECK(matmul(WeightType::q8_0, 1) == Approx(0.8));
  CHECK(matmul(WeightType::q8_0, 4) == Approx(0.6));
  CHECK(matmul(WeightType::q8_0, 16) == Approx(0.4));
  CHECK(matmul(WeightType::q8_0, 999) == Approx(0.4));
  CHECK(matmul(WeightType::q8_0, 1, 1024) == Approx(0.7));
  CHECK(matmul(WeightType::q8_0, 4, 1024) == Approx(0.55));
  CHECK(matmul(WeightType::q8_0, 1, 64) == Approx(0.8));
  CHECK(matmul(WeightType::q8_0, 1, 9999) == Approx(0.6));
  CHECK(matmul(WeightType::q4_0, 999) == Approx(0.6));
  CHECK(matmul(WeightType::f16, 1) == Approx(0.85));  // nothing measured: a guess
  const auto attention = [&](double tokens, double context, double width = 2) {
    return model.share({KernelFamily::attention, WeightType::as_stored, tokens, context, width}, false);
  };
  CHECK(attention(1, 0) == Approx(0.2));
  CHECK(attention(1, 127) == Approx(0.2));
  CHECK(attention(1, 4000) == Approx(0.6));
  CHECK(attention(1, 4000, 4) == Approx(1 / (2.0 / 3 / 0.6 + 1.0 / 3 / 0.8)));
  CHECK(attention(1, 127, 99) == Approx(0.4));
  CHECK(attention(300, 50) == Approx(0.5));
}

TEST_CASE("weights come from memory, or from the cache where all of them fit") {
  const CostModel model(tests::made_ceilings());
  CHECK(model.memory_rate() == 28e9);
  CHECK(model.cache_rate() == 70e9);
  CHECK(CostModel(tests::made_ceilings(), 1).memory_rate() == 14e9);
  const auto graph =
      profile::synthetic_decoder({}, {WeightType::q8_0, WeightType::q8_0, WeightType::q8_0, WeightType::q8_0});
  const auto small = profile::synthetic_decoder({64, 2, 1, 32, 64, 64, 64, {}}, {WeightType::q8_0});
  const graph::BatchShape batch = profile::decode_batch(1, 10, {});
  CHECK(model.resident(*small, batch));
  CHECK_FALSE(model.resident(*graph, batch));
  graph::OpCost cost;
  cost.weight_bytes = 28'000'000;
  CHECK(model.roof(*graph, 0, cost, {}, false).memory_s == Approx(1e-3));
  CHECK(model.roof(*graph, 0, cost, {}, true).memory_s == Approx(0.4e-3));
}

TEST_CASE("bf16 products are those of attention over a bf16 cache, and of all where a device has no others") {
  const auto graph = profile::synthetic_decoder({}, {WeightType::f16});
  const auto rate_of = [&](const CostModel& model, bool attention, KvType kv) {
    for (const backend::Op& op : graph->ops) {
      const bool found =
          attention ? std::holds_alternative<backend::PagedAttention>(op) : std::holds_alternative<backend::MatMul>(op);
      if (found) return model.compute_rate(*graph, op, {kv, kv});
    }
    return 0.0;
  };
  Ceilings ceilings = tests::made_ceilings();
  for (ThreadCeilings& at : ceilings.at) {
    at.f32.best = 100e9;
    at.bf16.best = 300e9;
  }
  const CostModel both(ceilings);
  CHECK(rate_of(both, true, KvType::bf16) == 300e9);
  CHECK(rate_of(both, true, KvType::f16) == 100e9);
  CHECK(rate_of(both, false, KvType::bf16) == 100e9);
  for (ThreadCeilings& at : ceilings.at) at.f32.best = 0;
  const CostModel one(ceilings);
  CHECK(rate_of(one, true, KvType::f16) == 300e9);
  CHECK(rate_of(one, false, KvType::f16) == 300e9);
}

TEST_CASE("a larger batch takes longer and gives more tokens, up to the knee") {
  const CostModel model(calibrated());
  const std::vector<WeightType> layers(8, WeightType::q8_0);
  const auto graph = profile::synthetic_decoder({}, layers);
  double seconds = 0, rate = 0;
  for (const int n : {1, 2, 4, 8, 16, 64}) {
    const graph::BatchShape batch = profile::decode_batch(n, 200, {});
    const profile::StepForecast step = forecast_step(model, *graph, batch);
    CHECK(step.seconds > seconds);
    CHECK(decode_rate(model, *graph, batch) > rate);
    CHECK(step.seconds == Approx(step.memory_s + step.compute_s + step.kv_s + step.overhead_s));
    seconds = step.seconds;
    rate = decode_rate(model, *graph, batch);
  }
  const int knee = profile::knee_of(model, *graph, 200, {});
  CHECK(knee >= 8);
  CHECK(knee <= 128);
  const profile::StepForecast prompt = forecast_prefill(model, *graph, 1024, 512, {});
  CHECK(prompt.bound() == Bound::compute);
  CHECK(forecast_step(model, *graph, profile::decode_batch(1, 0, {})).bound() == Bound::memory);
}

TEST_CASE("another weight type changes matrices and nothing else") {
  const auto graph = profile::synthetic_decoder({}, {WeightType::q8_0});
  const backend::Graph other = profile::with_weight_type(*graph, WeightType::q4_0);
  CHECK(profile::weight_bytes_of(other) < profile::weight_bytes_of(*graph) * 0.56);
  for (std::size_t i = 0; i < other.weights.size(); ++i) {
    CHECK(other.weights[i].type == (graph->weights[i].rows == 1 ? WeightType::f32 : WeightType::q4_0));
  }
}

TEST_CASE("a described device needs no calibration") {
  DeviceDescription device;
  device.bandwidth.value = 1e12;
  device.f32.value = 1e13;
  device.f16.value = 1e14;
  device.int8.value = 2e14;
  device.bandwidth_share.value = 0.5;
  device.compute_share.value = 0.5;
  device.group_overhead.value = 1e-6;
  device.step_overhead.value = 1e-5;
  const CostModel model(device);
  CHECK(model.calibrated());
  const std::vector<WeightType> layers(8, WeightType::f16);
  const auto graph = profile::synthetic_decoder({}, layers);
  const double bytes = static_cast<double>(profile::weight_bytes_of(*graph));
  const double seconds = forecast_step(model, *graph, profile::decode_batch(1, 0, {})).seconds;
  CHECK(seconds > bytes / 0.5e12);
  CHECK(seconds < bytes / 0.5e12 * 1.2 + 1e-5 + 1e-6 * static_cast<double>(graph->groups.size()));
}

TEST_CASE("a span's time is divided by what its ops would take") {
  const auto graph = profile::synthetic_decoder({}, {WeightType::q8_0});
  const CostModel model(tests::made_ceilings());
  profile::StepCosts costs(*graph);
  costs.fill(*graph, profile::decode_batch(1, 100, {}), model);
  double sum = 0;
  int count = 0;
  costs.split({0, 100, 0, 1, 3}, [&](std::size_t op, double share) {
    CHECK(op >= 1);
    CHECK(op <= 3);
    sum += share;
    ++count;
  });
  CHECK(count == 3);
  CHECK(sum == Approx(1));
  costs.split({0, 100, 0, 5, 0}, [&](std::size_t op, double share) {  // a device's own work after op 4
    CHECK(op == 4);
    CHECK(share == 1);
  });
}

TEST_CASE("the cache file keeps everything and refuses what it does not know") {
  const Ceilings before = calibrated();
  const std::string text = profile::to_json(before);
  const auto after = profile::ceilings_from_json(text);
  REQUIRE(after);
  CHECK(profile::to_json(*after) == text);
  CHECK(after->name == before.name);
  CHECK(after->all().read.best == before.all().read.best);
  CHECK(after->efficiencies.size() == before.efficiencies.size());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    return profile::ceilings_from_json(other).has_value();
  };
  CHECK_FALSE(with("\"version\": 2", "\"version\": 1"));
  CHECK_FALSE(with("\"threads\": 2", "\"threads\": -2"));
  CHECK_FALSE(with("Q8_0", "Q8_9"));
  CHECK_FALSE(with("\"matmul\"", "\"what\""));
  CHECK_FALSE(with("2.8e+10", "\"fast\""));
  CHECK_FALSE(profile::ceilings_from_json("").has_value());
  CHECK_FALSE(profile::ceilings_from_json("[1, 2]").has_value());
  CHECK_FALSE(profile::ceilings_from_json(std::string(5000, '[')).has_value());
  for (std::size_t n = 0; n < text.size(); n += 7)
    CHECK_FALSE(profile::ceilings_from_json(text.substr(0, n)).has_value());
}
