#include <llminfer/forecast.hpp>

#include <algorithm>

#include "api/guard.h"
#include "core/fail.h"
#include "format/model_file.h"
#include "graph/memory_plan.h"
#include "models/registry.h"
#include "profile/step_forecast.h"

namespace llminfer {
inline namespace v0 {
namespace {

void check_range(const char* field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) {
    core::fail(ErrorCode::invalid_argument, "Workload::{} is {}, must be {} to {}", field, value, low, high);
  }
}

void check(const Workload& w) {
  check_range("prompt", w.prompt, 1, 1 << 24);
  check_range("generate", w.generate, 0, 1 << 24);
  check_range("step_tokens", w.step_tokens, 1, 1 << 16);
  check_range("batches.size()", static_cast<std::int64_t>(w.batches.size()), 1, 1000);
  for (const int n : w.batches) check_range("batches", n, 1, 1 << 16);
  check_range("k", static_cast<std::int64_t>(w.k), 0, static_cast<std::int64_t>(KvType::q4_0));
  check_range("v", static_cast<std::int64_t>(w.v), 0, static_cast<std::int64_t>(KvType::q4_0));
}

/// The graph of a file: metadata alone is read.
std::shared_ptr<const backend::Graph> graph_of(const ModelSource& source, const Workload& w) {
  const format::ModelFile file = format::ModelFile::open(source);
  models::require_known(file.architecture());
  const format::HyperParameters hyper = file.hyper_parameters();
  models::BuildOptions build;
  build.context = w.prompt + w.generate;
  build.weight_type = w.weight_type;
  return models::build_model(file, hyper, build).graph;
}

/// What the figures are for.
struct Plan {
  const profile::CostModel& model;
  const backend::Graph& graph;
  backend::KvFormat kv;
  int page_size = 32;
  int replicas = 1;
  std::uint64_t memory = 0;  // of each replica
};

ForecastRow row_of(const Plan& plan, const Workload& w, const Forecast& all, int sequences) {
  ForecastRow row;
  row.sequences = sequences;
  const int each = (sequences + plan.replicas - 1) / plan.replicas;
  const double factor = static_cast<double>(sequences) / each;
  const profile::StepForecast prompt = forecast_prefill(plan.model, plan.graph, w.prompt, w.step_tokens, plan.kv);
  const double sample = plan.model.sample_seconds(plan.graph);
  row.prefill_tokens_per_s = w.prompt / prompt.seconds * std::min(plan.replicas, sequences);
  row.first_token_s = prompt.seconds + sample;
  row.prefill_bound = prompt.bound();
  const graph::BatchShape batch = profile::decode_batch(each, w.prompt + w.generate / 2, plan.kv);
  row.decode_tokens_per_s = decode_rate(plan.model, plan.graph, batch) * factor;
  row.decode_bound = forecast_step(plan.model, plan.graph, batch).bound();
  const std::int64_t pages = (w.prompt + w.generate + plan.page_size - 1) / plan.page_size;
  row.memory = all.weights + all.activations +
               static_cast<std::uint64_t>(each) * static_cast<std::uint64_t>(pages * plan.page_size) * all.kv_per_token;
  row.fits = plan.memory == 0 || row.memory <= plan.memory;
  return row;
}

Forecast forecast_of(const Plan& plan, const Workload& w) {
  Forecast out;
  out.memory_available = plan.memory;
  out.calibrated = plan.model.calibrated();
  out.weights = profile::weight_bytes_of(plan.graph);
  const backend::Limits limits{w.step_tokens, 32, 32};
  out.activations = graph::plan_memory(plan.graph, limits).total;
  out.kv_per_token = profile::kv_bytes_per_token(plan.graph, plan.kv);
  const std::uint64_t pages = static_cast<std::uint64_t>((w.prompt + w.generate + plan.page_size - 1) / plan.page_size);
  const std::uint64_t each =
      std::max<std::uint64_t>(1, pages * static_cast<std::uint64_t>(plan.page_size) * out.kv_per_token);
  if (plan.memory > out.weights + out.activations) {
    const std::uint64_t fit = (plan.memory - out.weights - out.activations) / each;
    out.largest_batch = static_cast<int>(std::min<std::uint64_t>(fit, 1 << 24)) * plan.replicas;
  }
  out.knee = profile::knee_of(plan.model, plan.graph, w.prompt + w.generate / 2, plan.kv);
  for (const int n : w.batches) out.rows.push_back(row_of(plan, w, out, n));
  return out;
}

backend::KvFormat kv_of(const Workload& w, KvType automatic) {
  return {w.k == KvType::automatic ? automatic : w.k, w.v == KvType::automatic ? automatic : w.v};
}

}  // namespace

Result<Forecast> forecast(const ModelSource& source, const Ceilings& device, const Workload& workload,
                          std::uint64_t memory) {
  return api::guard("forecast", [&] {
    check(workload);
    if (device.at.empty()) core::fail(ErrorCode::invalid_argument, "the ceilings have no measurement");
    const auto graph = graph_of(source, workload);
    const profile::CostModel model(device, device.threads);
    Forecast out = forecast_of({model, *graph, kv_of(workload, KvType::f16), 32, 1, memory}, workload);
    out.device =
        fmt::format("{} ({}, {} thread{})", device.name, device.isa, device.threads, device.threads == 1 ? "" : "s");
    return out;
  });
}

Result<Forecast> forecast(const ModelSource& source, const DeviceDescription& device, const Workload& workload) {
  return api::guard("forecast", [&] {
    check(workload);
    const auto graph = graph_of(source, workload);
    const profile::CostModel model(device);
    Forecast out = forecast_of({model, *graph, kv_of(workload, device.default_kv), device.page_size, device.replicas,
                                static_cast<std::uint64_t>(device.memory.value)},
                               workload);
    out.device = device.name;
    return out;
  });
}

Result<std::vector<WeightType>> weight_types(const ModelSource& source) {
  return api::guard("weight_types", [&] {
    Workload small;
    small.prompt = 1;
    small.generate = 0;
    const auto graph = graph_of(source, small);
    std::vector<WeightType> out;
    for (const backend::Op& op : graph->ops) {
      if (profile::family_of(op) != KernelFamily::matmul) continue;
      const WeightType type = profile::weight_type_of(*graph, op);
      if (std::find(out.begin(), out.end(), type) == out.end()) out.push_back(type);
    }
    return out;
  });
}

}  // namespace v0
}  // namespace llminfer
