#include "host/cuda_backend.h"

#include "core/fail.h"
#include "core/guard.h"
#include "graph/check.h"
#include "host/ceilings.h"
#include "host/kv_storage.h"
#include "host/program.h"

namespace llminfer::cuda {
namespace {

class CudaBackend final : public backend::Backend {
 public:
  explicit CudaBackend(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

  DeviceInfo info() const override {
    DeviceInfo info;
    info.kind = "cuda";
    info.name = engine_->name();
    info.isa = engine_->isa();
    info.threads = 1;
    info.memory = engine_->total_memory();
    info.page_size = kv_page;
    info.default_kv = KvType::f16;
    info.notes = engine_->gemm.note();
    return info;
  }

  Result<backend::MemoryNeeds> plan(const backend::Graph& graph, const backend::Limits& limits,
                                    backend::KvFormat format) const override {
    return core::guard("plan", [&] {
      graph::check(graph);
      check_supported(graph, limits);
      const WeightPlan weights = plan_weights(graph);
      backend::MemoryNeeds needs;
      needs.weights = weights.bytes;
      for (const backend::RopeTable& t : graph.rope_tables) needs.weights += 4 * t.inverse_frequency.size();
      needs.workspace = plan_workspace(graph, limits, weights, has_gemm(*engine_, graph, limits)).total();
      for (const backend::StateGroup& s : graph.states) {
        needs.page_bytes.push_back(static_cast<std::uint64_t>(kv_page_bytes(s, format)));
      }
      return needs;
    });
  }

  Result<std::shared_ptr<const backend::Program>> compile(std::shared_ptr<const backend::Graph> graph,
                                                          const backend::WeightReader& weights,
                                                          const backend::CompileOptions& options) const override {
    return core::guard("compile", [&]() -> std::shared_ptr<const backend::Program> {
      if (graph == nullptr) core::fail(ErrorCode::invalid_argument, "graph: null");
      return std::make_shared<const CudaProgram>(engine_, std::move(graph), weights, options);
    });
  }

  Result<Ceilings> ceilings(double seconds) const override {
    return core::guard("ceilings", [&] {
      CeilingsPlan plan;
      plan.seconds = seconds;
      return measure_ceilings(engine_, plan);
    });
  }

  std::uint64_t memory_used() const noexcept override { return engine_->bytes.load(); }

 private:
  std::shared_ptr<Engine> engine_;
};

}  // namespace

std::shared_ptr<backend::Backend> make_cuda_backend(int index, std::vector<std::string> cublas) {
  return std::make_shared<CudaBackend>(std::make_shared<Engine>(index, std::move(cublas)));
}

}  // namespace llminfer::cuda
