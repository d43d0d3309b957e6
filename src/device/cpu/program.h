// A compiled graph of the CPU device, and the memory of one caller.
#pragma once

#include <memory>
#include <mutex>

#include <llminfer/backend/backend.hpp>

#include "core/memory.h"
#include "core/thread_pool.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kv_storage.h"
#include "device/cpu/schedule.h"
#include "device/cpu/weight_cache.h"
#include "device/cpu/weights.h"

namespace llminfer::cpu {

/// What a device and all that it made share.
struct Engine {
  Kernels kernels{};
  std::shared_ptr<core::Memory> memory{};
  std::unique_ptr<core::ThreadPool> pool{};
};

constexpr std::int32_t most_few_rows = 4;  ///< rows up to which a step goes by the schedule for few rows

constexpr std::int32_t most_top_k = 128;    ///< of a top-k that the threads find themselves
constexpr std::int32_t most_top_rows = 64;  ///< rows wanted out of such a step
constexpr std::int64_t sum_columns = 128;   ///< columns of a row whose logits are summed up as one

struct Schedules {
  Schedule many{};
  Schedule few{};
};

/// Throws unsupported_type, out_of_memory.
Schedules make_schedules(const backend::Graph& graph, const backend::Limits& limits,
                         const std::shared_ptr<core::Memory>& memory);

/// Byte offsets in a Workspace. The activations of both schedules lie at its beginning: a step has one of them.
struct WorkspacePlan {
  std::uint64_t own_at = 0;  ///< own values of few rows; own_bytes for each thread
  std::uint64_t own_bytes = 0;
  std::uint64_t heads_at = 0;  ///< uint32 per ProductPart::unit of a phase: panels finished by threads that share it;
                               ///< 0 between phases
  std::vector<std::uint64_t> angles_at{};  ///< per RoPE table: cosines [tokens x pairs], then sines
  std::uint64_t bests_at = 0;              ///< per thread: bests_bytes, a BestLogit for each row wanted out
  std::uint64_t bests_bytes = 0;
  std::uint64_t tops_at = 0;  ///< per thread: tops_bytes, most_top_k BestLogit for each of most_top_rows rows
  std::uint64_t tops_bytes = 0;
  std::uint64_t sums_at = 0;    ///< a LogitSum for each sum_columns columns of each of most_top_rows rows
  std::uint64_t parts_at = 0;   ///< uint32 per thread: finished parts of the attention that begins with it; 0 between
  std::uint64_t states_at = 0;  ///< per thread: states_bytes, softmax states of parts of attention
  std::uint64_t states_bytes = 0;
  std::uint64_t made_at = 0;     ///< per thread: a line that begins with a GroupsMade
  std::uint64_t cursors_at = 0;  ///< per thread: a line, that of Claims
  std::uint64_t scratch_at = 0;  ///< per thread: scratch_bytes
  std::uint64_t scratch_bytes = 0;
  std::uint64_t lists_at = 0;  ///< in a scratch: room of MoE lists, behind the room of slabs and attention
  std::uint64_t bytes = 0;
};

/// Throws out_of_memory.
WorkspacePlan plan_workspace(const backend::Graph& graph, const backend::Limits& limits, const Schedules& schedules,
                             const WeightPlan& weights, const Kernels& kernels, int threads);

class CpuWorkspace final : public backend::Workspace {
 public:
  CpuWorkspace(const void* owner, core::Buffer memory) noexcept : owner_(owner), memory_(std::move(memory)) {}
  const void* owner() const noexcept { return owner_; }
  std::byte* data() noexcept { return memory_.data(); }

 private:
  const void* owner_;
  core::Buffer memory_;
};

class CpuProgram final : public backend::Program {
 public:
  CpuProgram(std::shared_ptr<Engine> engine, std::shared_ptr<const backend::Graph> graph,
             const backend::WeightReader& reader, const backend::CompileOptions& options);

  Result<std::unique_ptr<backend::Workspace>> workspace() const override;
  Result<std::unique_ptr<backend::KvStorage>> make_kv(backend::KvFormat format,
                                                      std::span<const std::int32_t> pages) const override;
  backend::Status run(const backend::StepBatch& batch, backend::KvStorage& kv, backend::Workspace& workspace,
                      const backend::StepOutputs& outputs, const backend::StopFlag& stop,
                      backend::ProfileSink* profile) const noexcept override;

  WeightCache weight_cache() const noexcept override { return loaded_.cache; }

  // For the executor.
  const Engine& engine() const noexcept { return *engine_; }
  const backend::Graph& graph() const noexcept { return *graph_; }
  const backend::Limits& limits() const noexcept { return limits_; }
  const Schedule& schedule(ScheduleKind kind) const noexcept {
    return kind == ScheduleKind::few_rows ? schedules_.few : schedules_.many;
  }
  const WorkspacePlan& plan() const noexcept { return plan_; }
  const PlacedWeight& weight(backend::WeightId id) const noexcept {
    return weights_.weights[static_cast<std::size_t>(id)];
  }
  /// A vector weight's values, null for none.
  const float* values(backend::WeightId id) const noexcept {
    return id == backend::none ? nullptr : weight(id).values(arena());
  }
  const std::byte* arena() const noexcept { return loaded_.weights.data(); }
  bool logits_read() const noexcept { return logits_read_; }

 private:
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<const backend::Graph> graph_;
  backend::Limits limits_;
  Schedules schedules_;
  WeightPlan weights_;
  WorkspacePlan plan_;
  LoadedWeights loaded_;
  bool logits_read_ = false;  // by an op: then they must lie in the workspace
};

/// Throws unsupported_type for what this device cannot do in a graph that passed graph::check.
void check_supported(const backend::Graph& graph, const backend::Limits& limits);

}  // namespace llminfer::cpu
