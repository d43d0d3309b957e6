// Memory is known before it is taken, and given back.
#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "api/model_body.h"
#include "catch.h"
#include "engine_fixture.h"

using namespace llminfer;

namespace {

/// Resident bytes of this process.
long resident_bytes() {
  std::ifstream file("/proc/self/statm");
  long total = 0;
  long resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

void check_plan(const ModelSource& source, const LoadOptions& options, const SessionOptions& session_options) {
  const MemoryPlan plan = Model::plan_memory(source, options, session_options).value();
  const Device device = options.devices.front();
  const std::uint64_t before = device.memory_used();
  const Model model = Model::open(source, options).value();
  const auto weights = static_cast<double>(device.memory_used() - before);
  CHECK(weights == Approx(static_cast<double>(plan.weights)).epsilon(0.02));
  const std::uint64_t host = model.body()->host->current_bytes();
  const Session session = Session::open(model, session_options).value();
  const double taken = static_cast<double>(device.memory_used() - before) - weights +
                       static_cast<double>(model.body()->host->current_bytes() - host);
  CHECK(taken == Approx(static_cast<double>(plan.activations + plan.kv)).epsilon(0.02));
}

}  // namespace

TEST_CASE("the plan agrees with what is taken") {
  const auto file = tests::smollm2();
  if (!file) {
    WARN("SmolLM2 is not in the model cache: skipped");
    return;
  }
  for (const bool reference : {false, true}) {
    for (const KvType kv : {KvType::automatic, KvType::f32, KvType::q8_0}) {
      LoadOptions options;
      options.devices = {reference ? Device::reference().value() : tests::cpu()};
      options.k = options.v = kv;
      options.context = 1000;
      options.max_step_tokens = 200;
      SessionOptions session;
      session.context = 700;
      check_plan(ModelSource::file(*file), options, session);
    }
  }
  LoadOptions options;
  options.devices = {tests::cpu()};
  options.weight_type = WeightType::q8_0;
  check_plan(ModelSource::file(*file), options, {});
}

TEST_CASE("loads leave nothing behind") {
  const auto load = [] {
    const Model model = tests::tiny_model(tests::cpu(2));
    Session session = Session::open(model).value();
    session.append(tests::some_tokens(20, 16)).value();
    session.prefill().value();
  };
  // What loads keep grows with each. What the system's allocator keeps for threads comes once, at any time.
  long least_growth = std::numeric_limits<long>::max();
  for (int series = 0; series < 4; ++series) {
    const long before = resident_bytes();
    for (int i = 0; i < 40; ++i) load();
    least_growth = std::min(least_growth, resident_bytes() - before);
  }
  CHECK(least_growth < 40 * (10 << 10));
}

TEST_CASE("everything a device holds goes with its last user") {
  const Device device = tests::cpu();
  CHECK(device.memory_used() == 0);
  {
    std::optional<Session> session;
    {
      const Model model = tests::tiny_model(device);
      session = Session::open(model).value();
    }
    CHECK(device.memory_used() > 0);
    session->append(tests::some_tokens(5, 16)).value();
    CHECK(session->prefill());
  }
  CHECK(device.memory_used() == 0);
}
