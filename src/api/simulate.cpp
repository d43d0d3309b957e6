#include <llminfer/simulate.hpp>

#include <algorithm>

#include "api/guard.h"
#include "api/model_body.h"
#include "core/clock.h"
#include "core/fail.h"
#include "device/registry.h"
#include "format/model_file.h"
#include "models/registry.h"
#include "profile/description_check.h"
#include "quant/type_table.h"
#include "runtime/pool.h"
#include "runtime/simulation/simulator.h"

namespace llminfer {
inline namespace v0 {
namespace {

using runtime::simulation::Replica;
using runtime::simulation::Simulator;
using runtime::simulation::Tally;

constexpr std::int64_t most_pages = std::int64_t{1} << 26;  // of all replicas: a page takes some bytes of this machine

void check(const char* field, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) {
    core::fail(ErrorCode::invalid_argument, "{} is {}, must be {} to {}", field, value, least, most);
  }
}

void check(const BatchPolicy& policy, const SimulationOptions& options) {
  check("BatchPolicy::mode", static_cast<std::int64_t>(policy.mode), 0, static_cast<std::int64_t>(BatchMode::chunked));
  check("BatchPolicy::max_sequences", policy.max_sequences, 1, 4096);
  const bool chunked = policy.mode == BatchMode::chunked;
  check("BatchPolicy::step_tokens", policy.step_tokens, chunked ? policy.max_sequences : 1, 1 << 16);
  check("SimulationOptions::context", options.context, 0, 1 << 24);
  check("SimulationOptions::k", static_cast<std::int64_t>(options.k), 0, static_cast<std::int64_t>(KvType::q4_0));
  check("SimulationOptions::v", static_cast<std::int64_t>(options.v), 0, static_cast<std::int64_t>(KvType::q4_0));
  if (options.weight_type == WeightType::as_stored) return;
  const quant::QuantType* type = quant::find(options.weight_type);
  if (type == nullptr || type->pack_row == nullptr) {
    core::fail(ErrorCode::invalid_argument, "SimulationOptions::weight_type is {}, which cannot be converted to",
               describe(options.weight_type).name);
  }
}

/// The simulated device does not ask.
class NoWeights final : public backend::WeightReader {
 public:
  Result<void> read_rows(backend::WeightId, std::int64_t, std::int64_t, std::span<std::byte>) const override {
    return Error{ErrorCode::unavailable, "a simulated model has no weights", "", 0, 0};
  }
};

/// A model on a described device, as far as metadata tells.
struct Plan {
  std::shared_ptr<const backend::Graph> graph;
  backend::Limits limits;
  backend::KvFormat format;
  std::vector<std::int32_t> pages;
  std::int32_t page_size;
};

std::shared_ptr<const backend::Graph> graph_of(const ModelSource& source, const SimulationOptions& options) {
  const format::ModelFile file = format::ModelFile::open(source);
  models::require_known(file.architecture());
  return models::build_model(file, file.hyper_parameters(), {options.context, options.weight_type}).graph;
}

/// What the device's memory leaves for pages, or what the policy says, if there is that much.
std::size_t kv_bytes(const DeviceDescription& device, const BatchPolicy& policy, const backend::MemoryNeeds& needs) {
  const auto memory = static_cast<std::uint64_t>(device.memory.value);
  const std::uint64_t taken = needs.weights + needs.workspace;
  const std::uint64_t left = memory > taken ? memory - taken : 0;
  std::uint64_t page = 0;
  for (const std::uint64_t bytes : needs.page_bytes) page += bytes;
  const std::uint64_t wanted = std::max<std::uint64_t>(policy.kv_bytes, page);
  if (left < wanted) {
    core::fail_amount(ErrorCode::out_of_memory, static_cast<std::int64_t>(taken + wanted),
                      static_cast<std::int64_t>(memory), "weights take {} bytes, activations {}, pages {}; '{}' has {}",
                      needs.weights, needs.workspace, wanted, device.name, memory);
  }
  return policy.kv_bytes > 0 ? policy.kv_bytes : static_cast<std::size_t>(left);
}

Plan plan(const backend::Backend& backend, const ModelSource& source, const DeviceDescription& device,
          const BatchPolicy& policy, const SimulationOptions& options) {
  Plan out;
  out.graph = graph_of(source, options);
  const std::int32_t context = out.graph->context;
  // A prompt is computed in one step unless it is cut into chunks.
  const std::int32_t tokens =
      policy.mode == BatchMode::chunked ? policy.step_tokens : std::max(context, policy.max_sequences);
  out.limits = {tokens, policy.max_sequences, policy.max_sequences};
  out.format = {options.k, options.v};
  if (out.format.k == KvType::automatic) out.format.k = device.default_kv;
  if (out.format.v == KvType::automatic) out.format.v = device.default_kv;
  out.page_size = device.page_size;
  const backend::MemoryNeeds needs = backend.plan(*out.graph, out.limits, out.format).value();
  out.pages = api::session_pages(*out.graph, needs, out.page_size,
                                 {0, kv_bytes(device, policy, needs), tokens, policy.max_sequences});
  const auto cap = static_cast<std::int32_t>(most_pages / device.replicas);
  for (std::int32_t& pages : out.pages) pages = std::min(pages, cap);
  return out;
}

std::unique_ptr<Replica> open_replica(const Plan& plan, const DeviceDescription& device, const BatchPolicy& policy,
                                      std::uint64_t seed, Tally& tally) {
  auto clock = std::make_shared<core::ManualClock>();
  const std::shared_ptr<backend::Backend> backend = device::open_sim(device, seed, clock);
  backend::CompileOptions compile;
  compile.limits = plan.limits;
  runtime::PoolOptions pool;
  pool.program = backend->compile(plan.graph, NoWeights(), compile).value();
  pool.graph = plan.graph;
  pool.limits = plan.limits;
  pool.format = plan.format;
  pool.page_size = plan.page_size;
  pool.pages = plan.pages;
  if (policy.prefix_cache) pool.prefix_cache.emplace(runtime::PrefixCacheOptions{{seed, ~seed}, {}});
  return std::make_unique<Replica>(
      runtime::simulation::ReplicaOptions{std::make_shared<runtime::Pool>(std::move(pool)), std::move(clock),
                                          policy.mode, policy.max_sequences, plan.limits.tokens},
      tally);
}

SimulationReport run(const ModelSource& source, const DeviceDescription& device, const Traffic& traffic,
                     const BatchPolicy& policy, const SimulationOptions& options, const std::stop_token& stop) {
  profile::check(device);
  check(policy, options);
  const auto planner = device::open_sim(device, traffic.seed, std::make_shared<core::ManualClock>());
  const Plan made = plan(*planner, source, device, policy, options);
  const runtime::simulation::TrafficSource requests(traffic, made.graph->context);
  const auto tally = std::make_unique<Tally>();
  std::vector<std::unique_ptr<Replica>> replicas;
  replicas.reserve(static_cast<std::size_t>(device.replicas));
  for (int i = 0; i < device.replicas; ++i) {
    replicas.push_back(open_replica(made, device, policy, traffic.seed + static_cast<std::uint64_t>(i), *tally));
  }
  Simulator simulator(requests, std::move(replicas), *tally);
  std::function<void(std::int64_t)> progress;
  if (options.progress) {
    progress = [&](std::int64_t ended) {
      options.progress(static_cast<double>(ended) / static_cast<double>(traffic.requests));
    };
  }
  simulator.run(progress, stop);
  return simulator.report();
}

}  // namespace

const char* to_string(BatchMode mode) noexcept {
  switch (mode) {
    case BatchMode::fixed:
      return "fixed";
    case BatchMode::continuous:
      return "continuous";
    case BatchMode::chunked:
      return "chunked";
  }
  return "unknown";
}

Result<SimulationReport> simulate(const ModelSource& model, const DeviceDescription& device, const Traffic& traffic,
                                  const BatchPolicy& policy, const SimulationOptions& options, std::stop_token stop) {
  return api::guard("simulate", [&] { return run(model, device, traffic, policy, options, stop); });
}

}  // namespace v0
}  // namespace llminfer
