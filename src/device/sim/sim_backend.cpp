#include "device/sim/sim_backend.h"

#include "core/checked.h"
#include "core/fail.h"
#include "core/guard.h"
#include "device/sim/sim_program.h"
#include "graph/check.h"
#include "graph/cost.h"
#include "graph/memory_plan.h"

namespace llminfer::device::sim {
namespace {

class SimBackend final : public backend::Backend {
 public:
  explicit SimBackend(std::shared_ptr<SimDevice> device) : device_(std::move(device)) {}

  DeviceInfo info() const override {
    DeviceInfo info;
    info.kind = "sim";
    info.name = device_->description.name;
    info.isa = "none";
    info.threads = 1;
    info.memory = static_cast<std::uint64_t>(device_->description.memory.value);
    info.page_size = device_->description.page_size;
    info.default_kv = device_->description.default_kv;
    return info;
  }

  /// What the described device would take: weights as stored, activations as float32.
  Result<backend::MemoryNeeds> plan(const backend::Graph& graph, const backend::Limits& limits,
                                    backend::KvFormat format) const override {
    return core::guard("Backend::plan", [&] {
      graph::check(graph);
      backend::MemoryNeeds needs;
      for (const backend::Weight& w : graph.weights) {
        needs.weights = core::add_or_fail(needs.weights, graph::weight_bytes(w), "weight bytes");
      }
      needs.workspace = graph::plan_memory(graph, limits).total;
      for (const backend::StateGroup& group : graph.states) {
        needs.page_bytes.push_back(page_bytes(group, format, device_->description.page_size));
      }
      return needs;
    });
  }

  Result<std::shared_ptr<const backend::Program>> compile(std::shared_ptr<const backend::Graph> graph,
                                                          const backend::WeightReader&,
                                                          const backend::CompileOptions& options) const override {
    return core::guard("Backend::compile", [&]() -> std::shared_ptr<const backend::Program> {
      if (options.stop.stop_requested()) core::fail(ErrorCode::cancelled, "cancelled while compiling");
      auto program = std::make_shared<const SimProgram>(device_, std::move(graph), options.limits);
      if (options.progress) options.progress(1.0);
      return program;
    });
  }

  /// Nothing is ever taken.
  std::uint64_t memory_used() const noexcept override { return 0; }

 private:
  std::shared_ptr<SimDevice> device_;
};

}  // namespace

std::shared_ptr<backend::Backend> make_sim_backend(const DeviceDescription& description, std::uint64_t seed,
                                                   std::shared_ptr<core::ManualClock> clock) {
  auto device = std::make_shared<SimDevice>();
  device->description = description;
  device->seed = seed;
  device->clock = std::move(clock);
  return std::make_shared<SimBackend>(std::move(device));
}

}  // namespace llminfer::device::sim
