#include "device/reference/reference_backend.h"

#include <algorithm>
#include <mutex>

#include "core/checked.h"
#include "core/guard.h"
#include "core/memory_info.h"
#include "device/reference/reference_program.h"
#include "graph/check.h"

namespace llminfer::device {
namespace {

using namespace reference;  // NOLINT(google-build-using-namespace): this device's own parts

class ReferenceBackend final : public backend::Backend {
 public:
  explicit ReferenceBackend(std::shared_ptr<core::Memory> memory) : memory_(std::move(memory)) {}

  DeviceInfo info() const override {
    DeviceInfo info;
    info.kind = "reference";
    info.name = "plain float32 arithmetic";
    info.isa = "baseline";
    info.threads = 1;
    info.memory = memory_->limit();
    info.free_memory = std::min<std::uint64_t>(core::available_memory(), memory_->available_bytes());
    info.page_size = page_size;
    info.default_kv = KvType::f32;
    return info;
  }

  Result<backend::MemoryNeeds> plan(const backend::Graph& graph, const backend::Limits& limits,
                                    backend::KvFormat format) const override {
    return core::guard("Backend::plan", [&] {
      graph::check(graph);
      backend::MemoryNeeds needs;
      for (const backend::Weight& w : graph.weights) {
        const auto values =
            core::mul_or_fail(static_cast<std::uint64_t>(w.columns), static_cast<std::uint64_t>(w.rows), "weight size");
        const auto all = core::mul_or_fail(values, 4 * static_cast<std::uint64_t>(w.experts), "weight bytes");
        needs.weights = core::add_or_fail(needs.weights, all, "weight bytes");
      }
      needs.workspace = graph::plan_memory(graph, limits, memory_).total + scratch_doubles(graph) * sizeof(double) +
                        row_floats(graph) * sizeof(float);
      for (const backend::StateGroup& s : graph.states) needs.page_bytes.push_back(reference::page_bytes(s, format));
      return needs;
    });
  }

  Result<std::shared_ptr<const backend::Program>> compile(std::shared_ptr<const backend::Graph> graph,
                                                          const backend::WeightReader& weights,
                                                          const backend::CompileOptions& options) const override {
    return core::guard("Backend::compile", [&]() -> std::shared_ptr<const backend::Program> {
      return std::make_shared<const ReferenceProgram>(std::move(graph), weights, options, memory_, turn_);
    });
  }

  std::uint64_t memory_used() const noexcept override { return memory_->current_bytes(); }

 private:
  std::shared_ptr<core::Memory> memory_;
  std::shared_ptr<std::mutex> turn_ = std::make_shared<std::mutex>();
};

}  // namespace

std::shared_ptr<backend::Backend> make_reference_backend(std::shared_ptr<core::Memory> memory) {
  if (memory == nullptr) memory = std::make_shared<core::Memory>();
  return std::make_shared<ReferenceBackend>(std::move(memory));
}

}  // namespace llminfer::device
