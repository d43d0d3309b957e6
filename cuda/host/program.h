// A graph compiled for a GPU, and the memory of one caller.
#pragma once

#include <llminfer/backend/backend.hpp>

#include <memory>

#include "graph/memory_plan.h"
#include "host/engine.h"
#include "host/fusions.h"
#include "host/reduced_outputs.h"
#include "host/step_data.h"
#include "host/step_graphs.h"
#include "host/weights.h"

namespace llminfer::cuda {

/// Byte offsets of activations as fragments, see kernels/fragments.h.
struct FragmentsPlan {
  std::uint64_t fragments = 0;
  std::uint64_t rest = 0;
  std::uint64_t row_scales = 0;
  std::uint64_t block_sums = 0;
};

/// Steps of so many rows at most have the fragments of a value made by the launch that makes the value. One block makes
/// those of eight rows: with more of them launches of their own are quicker.
constexpr std::int32_t most_rows_folded = 16;

/// Byte offsets in a Workspace's device memory.
struct WorkspacePlan {
  graph::MemoryPlan values{};      ///< activations come first
  StepLayout step{};               ///< memory of its own
  FragmentsPlan sets[2]{};         ///< the second of few rows: a product reads one and makes the other
  bool rests = false;              ///< there are weights that want FragmentsPlan::rest
  std::uint64_t partials = 0;      ///< of attention and of products, see kernels/attention_mma.h and matmul_quant.h;
                                   ///< memory of cuBLAS
  std::uint64_t counters = 0;      ///< from here on all is zero between launches: of products
  std::uint64_t arrivals = 0;      ///< of rows that become fragments
  std::uint64_t columns = 0;       ///< of columns that experts make
  std::uint64_t heads = 0;         ///< of queries, keys and values
  std::uint64_t merges = 0;        ///< of attention
  std::uint64_t tiles = 0;         ///< ExpertTiles: tiles, rows, tokens, runs
  std::int32_t most_tiles = 0;     ///< of those
  std::uint64_t bytes = 0;         ///< device memory without the step's
  std::uint64_t logits_bytes = 0;  ///< pinned memory: rows of logits or of hidden values, whichever are wider
  std::int32_t outputs = 0;        ///< rows
  std::int32_t vocabulary = 0;     ///< columns of logits, 0: the graph has none
  std::uint64_t total() const noexcept {
    return bytes + 8 * step.words + logits_bytes + 2 * ReducedOutputs::bytes(outputs, vocabulary);
  }
};

/// Throws out_of_memory.
WorkspacePlan plan_workspace(const backend::Graph& graph, const backend::Limits& limits, const WeightPlan& weights,
                             bool gemm);

/// Whether a step may take cuBLAS, where it is.
bool wants_gemm(const backend::Graph& graph, const backend::Limits& limits) noexcept;
/// Whether it is there, opened if a step may take it. Throws device_lost.
bool has_gemm(Engine& engine, const backend::Graph& graph, const backend::Limits& limits);

/// Throws unsupported_type or invalid_argument for what this device cannot do in a checked graph.
void check_supported(const backend::Graph& graph, const backend::Limits& limits);

class CudaWorkspace final : public backend::Workspace {
 public:
  CudaWorkspace(const void* owner, const std::shared_ptr<Engine>& engine, const WorkspacePlan& plan)
      : owner_(owner),
        memory(engine, Memory::Kind::device, plan.bytes),
        step(engine, plan.step),
        logits(engine, Memory::Kind::pinned, plan.logits_bytes),
        reduced(engine, plan.outputs, plan.vocabulary),
        graphs(engine) {}
  const void* owner() const noexcept { return owner_; }

 private:
  const void* owner_;

 public:
  Memory memory;
  StepData step;
  Memory logits;
  ReducedOutputs reduced;
  StepGraphs graphs;  // of launches that use the memory above
};

class CudaProgram final : public backend::Program {
 public:
  CudaProgram(std::shared_ptr<Engine> engine, std::shared_ptr<const backend::Graph> graph,
              const backend::WeightReader& reader, const backend::CompileOptions& options);

  Result<std::unique_ptr<backend::Workspace>> workspace() const override;
  Result<std::unique_ptr<backend::KvStorage>> make_kv(backend::KvFormat format,
                                                      std::span<const std::int32_t> pages) const override;
  backend::Status run(const backend::StepBatch& batch, backend::KvStorage& kv, backend::Workspace& workspace,
                      const backend::StepOutputs& outputs, const backend::StopFlag& stop,
                      backend::ProfileSink* profile) const noexcept override;

  // For the executor.
  Engine& engine() const noexcept { return *engine_; }
  const backend::Graph& graph() const noexcept { return *graph_; }
  const WorkspacePlan& plan() const noexcept { return plan_; }
  const backend::Limits& limits() const noexcept { return limits_; }
  const Fusions& fusions() const noexcept { return fusions_; }
  const PlacedWeight& placed(backend::WeightId id) const noexcept {
    return weights_.weights[static_cast<std::size_t>(id)];
  }
  /// The bytes of the file, which every weight has that an op other than matmul reads.
  const std::uint8_t* file_bytes(backend::WeightId id) const noexcept {
    const PlacedWeight& w = placed(id);
    return arena_.data() + (w.copy != 0 ? w.copy : w.offset);
  }
  const std::uint8_t* fragments(backend::WeightId id) const noexcept { return arena_.data() + placed(id).offset; }
  /// A vector of floats, null for none.
  const float* floats(backend::WeightId id) const noexcept {
    return id == backend::none ? nullptr : reinterpret_cast<const float*>(file_bytes(id));
  }
  const float* frequencies(std::int32_t table) const noexcept {
    return tables_.at<float>(4 * table_at_[static_cast<std::size_t>(table)]);
  }

 private:
  void upload_tables();

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<const backend::Graph> graph_;
  backend::Limits limits_;
  WeightPlan weights_;
  Fusions fusions_;
  WorkspacePlan plan_;
  Memory arena_;
  Memory tables_;  // inverse frequencies of all RoPE tables
  std::vector<std::uint64_t> table_at_{};
};

}  // namespace llminfer::cuda
