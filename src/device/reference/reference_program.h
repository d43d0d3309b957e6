// A graph compiled for the reference device: weights as float32, activations placed by lifetime.
#pragma once

#include <llminfer/backend/backend.hpp>
#include <memory>
#include <mutex>

#include "core/memory.h"
#include "core/vector.h"
#include "device/reference/step.h"
#include "graph/memory_plan.h"

namespace llminfer::device::reference {

class ReferenceProgram final : public backend::Program {
 public:
  /// Throws what graph::check, the reader or the memory throw; cancelled.
  ReferenceProgram(std::shared_ptr<const backend::Graph> graph, const backend::WeightReader& reader,
                   const backend::CompileOptions& options, std::shared_ptr<core::Memory> memory,
                   std::shared_ptr<std::mutex> turn);

  Result<std::unique_ptr<backend::Workspace>> workspace() const override;
  Result<std::unique_ptr<backend::KvStorage>> make_kv(backend::KvFormat format,
                                                      std::span<const std::int32_t> pages) const override;
  backend::Status run(const backend::StepBatch& batch, backend::KvStorage& kv, backend::Workspace& workspace,
                      const backend::StepOutputs& outputs, const backend::StopFlag& stop,
                      backend::ProfileSink* profile) const noexcept override;

 private:
  void load(const backend::WeightReader& reader, const backend::CompileOptions& options);
  backend::Status run_ops(const Step& step, const backend::StepOutputs& outputs, const backend::StopFlag& stop,
                          backend::ProfileSink* profile) const;

  std::shared_ptr<const backend::Graph> graph_;
  backend::Limits limits_;
  std::shared_ptr<core::Memory> memory_;
  std::shared_ptr<std::mutex> turn_;
  graph::MemoryPlan plan_;
  core::Vector<FloatWeight> weights_;
};

/// Values that attention scores and expert routing of one row may need.
std::size_t scratch_doubles(const backend::Graph& graph);
/// Values of the widest cached head row.
std::size_t row_floats(const backend::Graph& graph);

}  // namespace llminfer::device::reference
