// A whole simulated server, on a small model: what must hold whatever the policy.
#include <algorithm>
#include <cmath>
#include <llminfer/llminfer.hpp>
#include <set>

#include "catch.h"
#include "support/gguf_builder.h"

namespace {

using namespace llminfer;

/// So slow that the small model keeps it busy: 1 MB/s, 10 MFLOP/s.
DeviceDescription slow_device(int replicas = 1) {
  DeviceDescription d;
  d.name = "slow";
  d.replicas = replicas;
  d.page_size = 8;
  d.memory = {4e6, "test"};
  d.bandwidth = {1e6, "test"};
  d.cache = {1e6, "test"};
  d.f32 = d.f16 = d.int8 = {1e7, "test"};
  d.bandwidth_share = d.compute_share = {1, "test"};
  d.group_overhead = {1e-5, "test"};
  d.step_overhead = {1e-4, "test"};
  return d;
}

Traffic busy_traffic(std::int64_t requests = 300) {
  Traffic traffic;
  traffic.requests = requests;
  traffic.rate = 3;
  traffic.burstiness = 2;
  traffic.prompt = {12, 0.8};
  traffic.output = {10, 0.7};
  return traffic;
}

const test::Bytes& model_bytes() {
  static const test::Bytes bytes = test::tiny_llama().build();
  return bytes;
}

BatchPolicy policy_of(BatchMode mode, int max_sequences = 8, int step_tokens = 32) {
  BatchPolicy policy;
  policy.mode = mode;
  policy.max_sequences = max_sequences;
  policy.step_tokens = step_tokens;
  policy.prefix_cache = false;
  return policy;
}

SimulationReport simulated(const DeviceDescription& device, const Traffic& traffic, const BatchPolicy& policy) {
  return simulate(ModelSource::memory(model_bytes()), device, traffic, policy).value();
}

std::string refusal(const DeviceDescription& device, const Traffic& traffic, const BatchPolicy& policy,
                    ErrorCode code = ErrorCode::invalid_argument) {
  const auto result = simulate(ModelSource::memory(model_bytes()), device, traffic, policy);
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == code);
  return result.error().message;
}

void check_sane(const SimulationReport& r, const Traffic& traffic, int replicas) {
  CHECK(r.requests == traffic.requests);
  CHECK(r.completed + r.failed == r.requests);
  CHECK(r.output_tokens >= r.completed);
  CHECK(r.seconds > 0);
  CHECK(r.busy > 0);
  CHECK(r.busy <= 1.0001);
  CHECK(r.page_share_most <= 1);
  for (const Quantiles& q : {r.first_token, r.between_tokens, r.whole, r.queue_time}) {
    CHECK(q.p50 >= 0);
    CHECK(q.p50 <= q.p95);
    CHECK(q.p95 <= q.p99);
    CHECK(q.p99 <= q.most * 1.0001);
  }
  if (r.failed == 0) CHECK(r.whole.p50 >= r.first_token.p50);  // failed ones may have had a first token
  CHECK(r.moments.size() <= 256);
  double last = -1;
  for (const SimulationMoment& m : r.moments) {
    CHECK(m.begin > last);  // time goes on
    last = m.begin;
    CHECK(m.page_share >= 0);
    CHECK(m.page_share <= 1.0001);
    CHECK(m.running <= 8.0 * replicas + 0.001);
  }
}

}  // namespace

TEST_CASE("simulate: every request ends once, no token is lost or computed for nothing") {
  const Traffic traffic = busy_traffic();
  std::set<std::int64_t> outputs;
  for (const BatchMode mode : {BatchMode::fixed, BatchMode::continuous, BatchMode::chunked}) {
    for (const int replicas : {1, 3}) {
      const SimulationReport r = simulated(slow_device(replicas), traffic, policy_of(mode));
      check_sane(r, traffic, replicas);
      CHECK(r.failed == 0);
      CHECK(r.preemptions == 0);
      // Each token but the last of an answer is computed once.
      CHECK(r.computed_tokens == r.prompt_tokens + r.output_tokens - r.completed);
      outputs.insert(r.output_tokens);
    }
  }
  CHECK(outputs.size() == 1);  // the traffic decides, not the policy
}

TEST_CASE("simulate: the same again is the same") {
  const SimulationReport a = simulated(slow_device(2), busy_traffic(), policy_of(BatchMode::chunked));
  const SimulationReport b = simulated(slow_device(2), busy_traffic(), policy_of(BatchMode::chunked));
  CHECK(a.steps == b.steps);
  CHECK(a.seconds == Approx(b.seconds).epsilon(1e-15));
  CHECK(a.between_tokens.p99 == Approx(b.between_tokens.p99).epsilon(1e-15));
}

TEST_CASE("simulate: a pool that is too small preempts, and still loses nothing") {
  Traffic traffic = busy_traffic();
  traffic.output = {20, 0.5};
  BatchPolicy policy = policy_of(BatchMode::chunked);
  const SimulationReport roomy = simulated(slow_device(), traffic, policy);
  policy.kv_bytes = 24 * 8 * 2 * 2 * 2 * 8 * 2;  // 24 pages of 8 tokens, 2 layers, K and V, 2 heads of 8 in f16
  const SimulationReport tight = simulated(slow_device(), traffic, policy);
  check_sane(tight, traffic, 1);
  CHECK(tight.pages == 24);
  CHECK(tight.preemptions > 0);
  CHECK(tight.failed == 0);
  CHECK(tight.output_tokens == roomy.output_tokens);
  CHECK(tight.computed_tokens > roomy.computed_tokens);
  CHECK(tight.page_share_most > 0.9);
  policy.kv_bytes /= 12;  // two pages: longer requests can never be computed
  const SimulationReport hopeless = simulated(slow_device(), traffic, policy);
  check_sane(hopeless, traffic, 1);
  CHECK(hopeless.failed > 0);
}

TEST_CASE("simulate: no policy beats the roof, and fixed batches never beat continuous ones") {
  Traffic traffic = busy_traffic(600);
  traffic.rate = 1000;  // all there at once: what counts is how much can be done
  const DeviceDescription device = slow_device();
  // Weights read in every step; at most 8 sequences get a token from it.
  DeviceDescription same = device;
  LoadOptions load;
  load.devices = {Device::simulated(same).value()};
  const auto weights =
      static_cast<double>(Model::plan_memory(ModelSource::memory(model_bytes()), load).value().weights);
  const double roof = 8 * device.bandwidth.value / (weights * 0.9);  // the embedding's rows are not all read
  const SimulationReport fixed = simulated(device, traffic, policy_of(BatchMode::fixed));
  const SimulationReport continuous = simulated(device, traffic, policy_of(BatchMode::continuous));
  const SimulationReport chunked = simulated(device, traffic, policy_of(BatchMode::chunked));
  for (const SimulationReport& r : {fixed, continuous, chunked}) {
    CHECK(r.output_per_second > 0);
    CHECK(r.output_per_second <= roof);
    CHECK(r.sequences_per_step <= 8);
  }
  CHECK(fixed.output_per_second <= continuous.output_per_second);
  CHECK(fixed.sequences_per_step < continuous.sequences_per_step);
  CHECK(simulated(slow_device(4), traffic, policy_of(BatchMode::chunked)).output_per_second >
        3 * chunked.output_per_second);
}

TEST_CASE("simulate: chunks shorten the wait between tokens") {
  Traffic traffic = busy_traffic();
  traffic.prompt = {60, 0.3};
  traffic.rate = 0.8;
  SimulationOptions options;
  const SimulationReport whole = simulated(slow_device(), traffic, policy_of(BatchMode::continuous));
  const SimulationReport chunked = simulated(slow_device(), traffic, policy_of(BatchMode::chunked, 8, 16));
  CHECK(chunked.between_tokens.p99 < whole.between_tokens.p99);
}

TEST_CASE("simulate: shared prefixes are computed once") {
  Traffic traffic = busy_traffic();
  traffic.prefix_share = 0.8;
  traffic.prefix_tokens = 40;
  traffic.prefixes = 2;
  BatchPolicy policy = policy_of(BatchMode::chunked);
  const SimulationReport without = simulated(slow_device(), traffic, policy);
  CHECK(without.reused_tokens == 0);
  policy.prefix_cache = true;
  const SimulationReport with = simulated(slow_device(), traffic, policy);
  check_sane(with, traffic, 1);
  CHECK(with.preemptions == 0);
  CHECK(with.prompt_tokens == without.prompt_tokens);
  CHECK(with.output_tokens == without.output_tokens);
  CHECK(with.computed_tokens == with.prompt_tokens + with.output_tokens - with.completed - with.reused_tokens);
  // 80 % of 300 requests, all but the first ones 40 tokens each.
  CHECK(with.reused_tokens > 0.7 * 0.8 * 300 * 40);
  CHECK(with.first_token.mean < without.first_token.mean);
}

TEST_CASE("simulate: what is wrong is named") {
  const Traffic traffic = busy_traffic();
  DeviceDescription device = slow_device();
  BatchPolicy policy = policy_of(BatchMode::chunked);
  policy.max_sequences = 0;
  CHECK(refusal(device, traffic, policy).find("BatchPolicy::max_sequences is 0") != std::string::npos);
  policy = policy_of(BatchMode::chunked, 8, 4);
  CHECK(refusal(device, traffic, policy).find("BatchPolicy::step_tokens is 4, must be 8") != std::string::npos);
  policy = policy_of(BatchMode::chunked);
  policy.kv_bytes = 1 << 30;
  CHECK(refusal(device, traffic, policy, ErrorCode::out_of_memory).find("'slow' has 4000000") != std::string::npos);
  device.memory.value = 1000;
  refusal(device, traffic, policy_of(BatchMode::chunked), ErrorCode::out_of_memory);
  device = slow_device();
  device.int8.value = 0;
  CHECK(refusal(device, traffic, policy_of(BatchMode::chunked)).find("'int8' is 0") != std::string::npos);
  std::stop_source stop;
  stop.request_stop();
  Traffic many = busy_traffic(100'000);
  const auto stopped = simulate(ModelSource::memory(model_bytes()), slow_device(), many, policy_of(BatchMode::chunked),
                                {}, stop.get_token());
  REQUIRE_FALSE(stopped.has_value());
  CHECK(stopped.error().code == ErrorCode::cancelled);
}

TEST_CASE("simulate: an application's own code runs on a device that is not there") {
  LoadOptions load;
  load.devices = {Device::simulated(slow_device(), 3).value()};
  const Model model = Model::open(ModelSource::memory(model_bytes()), load).value();
  BatcherOptions options;
  options.kv_bytes = 1 << 20;
  Batcher batcher = Batcher::start(model, options).value();
  std::vector<Token> first;
  for (int round = 0; round < 2; ++round) {
    Session session = batcher.open_session().value();
    session.append(std::vector<Token>{1, 2, 3}).value();
    GenerateOptions generate;
    generate.max_tokens = 20;
    Generator generator = batcher.submit(std::move(session), generate).value();
    const Outcome outcome = generator.run([](const Piece&) { return true; }).value();
    CHECK(outcome.new_tokens > 0);
    Session back = std::move(generator).release().value();
    const std::span<const Token> history = back.tokens();
    if (round == 0) first.assign(history.begin(), history.end());
    CHECK(std::equal(first.begin(), first.end(), history.begin(), history.end()));
  }
  CHECK(load.devices.front().memory_used() == 0);
}
