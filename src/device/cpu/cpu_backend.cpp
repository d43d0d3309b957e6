#include "device/cpu/cpu_backend.h"

#include <algorithm>

#include "core/checked.h"
#include "core/cpu_info.h"
#include "core/fail.h"
#include "core/guard.h"
#include "core/memory_info.h"
#include "device/cpu/ceilings.h"
#include "device/cpu/program.h"
#include "graph/check.h"

namespace llminfer::cpu {
namespace {

class CpuBackend final : public backend::Backend {
 public:
  CpuBackend(std::shared_ptr<Engine> engine, std::string name) : engine_(std::move(engine)), name_(std::move(name)) {}

  DeviceInfo info() const override {
    DeviceInfo info;
    info.kind = "cpu";
    info.name = name_;
    info.isa = engine_->kernels.name;
    info.threads = engine_->pool->threads();
    info.memory = engine_->memory->limit();
    info.free_memory = std::min<std::uint64_t>(core::available_memory(), engine_->memory->available_bytes());
    info.page_size = kv_page;
    info.default_kv = engine_->kernels.default_kv;
    return info;
  }

  Result<backend::MemoryNeeds> plan(const backend::Graph& graph, const backend::Limits& limits,
                                    backend::KvFormat format) const override {
    return core::guard("plan", [&] {
      graph::check(graph);
      check_supported(graph, limits);
      const auto tables = std::make_shared<core::Memory>();  // counts what a program keeps beside its weights
      const Schedules schedules = make_schedules(graph, limits, tables);
      const WeightPlan weights = plan_weights(graph, tables);
      backend::MemoryNeeds needs;
      needs.weights = core::add_or_fail<std::uint64_t>(weights.bytes, tables->current_bytes(), "bytes of a program",
                                                       ErrorCode::out_of_memory);
      needs.workspace =
          plan_workspace(graph, limits, schedules, weights, engine_->kernels, engine_->pool->threads()).bytes;
      for (const backend::StateGroup& state : graph.states) {
        needs.page_bytes.push_back(static_cast<std::uint64_t>(page_shape(state, format).page_bytes));
      }
      return needs;
    });
  }

  Result<std::shared_ptr<const backend::Program>> compile(std::shared_ptr<const backend::Graph> graph,
                                                          const backend::WeightReader& weights,
                                                          const backend::CompileOptions& options) const override {
    return core::guard("compile", [&]() -> std::shared_ptr<const backend::Program> {
      if (graph == nullptr) core::fail(ErrorCode::invalid_argument, "graph: null");
      return std::make_shared<const CpuProgram>(engine_, std::move(graph), weights, options);
    });
  }

  std::uint64_t memory_used() const noexcept override { return engine_->memory->current_bytes(); }

  Result<Ceilings> ceilings(double seconds) const override {
    return core::guard("ceilings",
                       [&] { return measure(engine_->kernels, engine_->pool->threads(), seconds, engine_->memory); });
  }

 private:
  std::shared_ptr<Engine> engine_;
  std::string name_;
};

}  // namespace

std::shared_ptr<backend::Backend> make_cpu_backend(const CpuSettings& settings, std::shared_ptr<core::Memory> memory) {
  const core::CpuInfo cpu = core::detect_cpu();
  if (settings.threads < 0 || settings.threads > core::ThreadPool::max_threads) {
    core::fail(ErrorCode::invalid_argument, "threads: {} is not in 0 .. {}", settings.threads,
               core::ThreadPool::max_threads);
  }
  auto engine = std::make_shared<Engine>();
  engine->kernels = choose_kernels(settings.isa);
  engine->memory = memory != nullptr ? std::move(memory) : std::make_shared<core::Memory>(0, settings.huge_pages);
  engine->pool = std::make_unique<core::ThreadPool>(settings.threads > 0 ? settings.threads : cpu.cores.usable);
  return std::make_shared<CpuBackend>(std::move(engine), cpu.model);
}

}  // namespace llminfer::cpu
