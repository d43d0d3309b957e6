#include "device/cpu/program.h"

#include <algorithm>

#include "core/checked.h"
#include "core/fail.h"
#include "core/guard.h"
#include "device/common/batch_check.h"
#include "device/cpu/attention_phase.h"
#include "device/cpu/executor.h"
#include "graph/check.h"
#include "graph/op_io.h"

namespace llminfer::cpu {
namespace {

constexpr std::uint64_t align(std::uint64_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

/// Scratch of one thread that each op wants: slabs and attention share one room, MoE lists come behind it.
struct ScratchNeeds {
  const Kernels& kernels;
  const backend::Graph& graph;
  const backend::Limits& limits;
  const WeightPlan& weights;
  std::uint64_t room = 0;
  std::uint64_t lists = 0;
  std::uint64_t states = 0;

  void matrix(backend::WeightId id) {
    const PlacedWeight& w = weights.weights[static_cast<std::size_t>(id)];
    room = std::max<std::uint64_t>(room, multiply_scratch(kernels, w));
  }
  void operator()(const backend::Embed& op) {
    room = std::max(room,
                    static_cast<std::uint64_t>(weights.weights[static_cast<std::size_t>(op.weight)].shape.row_bytes));
  }
  void operator()(const backend::MatMul& op) { matrix(op.weight); }
  void operator()(const backend::MoeMatMul& op) {
    matrix(op.weight);
    const std::int64_t rows =
        graph.values[static_cast<std::size_t>(op.out)].rows == backend::Rows::tokens ? limits.tokens : limits.outputs;
    const std::int64_t experts = weights.weights[static_cast<std::size_t>(op.weight)].experts;
    lists = std::max(lists, static_cast<std::uint64_t>(4 * (2 * rows * op.used + experts + 1)));
  }
  void operator()(const backend::PagedAttention& op) {
    const backend::StateGroup& state = graph.states[static_cast<std::size_t>(op.slot.group)];
    room = std::max<std::uint64_t>(room, sizeof(float) * attention_scratch(state.k_width, state.v_width));
    states = std::max(states, attention_state_bytes(op.heads / state.heads, state.v_width));
  }
  void operator()(const backend::MoeRoute& op) {
    room = std::max<std::uint64_t>(room, 2 * sizeof(float) * static_cast<std::uint64_t>(op.experts));
  }
  template <class Op>
  void operator()(const Op&) {}
};

}  // namespace

Schedules make_schedules(const backend::Graph& graph, const backend::Limits& limits,
                         const std::shared_ptr<core::Memory>& memory) {
  backend::Limits few = limits;
  few.tokens = std::min(few.tokens, most_few_rows);
  few.outputs = std::min(few.outputs, few.tokens);
  return {make_schedule(graph, limits, ScheduleKind::many_rows, memory),
          make_schedule(graph, few, ScheduleKind::few_rows, memory)};
}

WorkspacePlan plan_workspace(const backend::Graph& graph, const backend::Limits& limits, const Schedules& schedules,
                             const WeightPlan& weights, const Kernels& kernels, int threads) {
  const char* what = "bytes of a workspace";
  WorkspacePlan plan;
  plan.own_at = align(schedules.few.bytes);
  const auto few_rows = static_cast<std::uint64_t>(std::min(most_few_rows, limits.tokens));
  plan.own_bytes =
      align(core::mul_or_fail<std::uint64_t>(schedules.few.own_row_bytes, few_rows, what, ErrorCode::out_of_memory));
  const std::uint64_t own = core::mul_or_fail<std::uint64_t>(plan.own_bytes, static_cast<std::uint64_t>(threads), what,
                                                             ErrorCode::out_of_memory);
  plan.bytes =
      std::max(align(schedules.many.bytes), core::add_or_fail(plan.own_at, align(own), what, ErrorCode::out_of_memory));
  plan.heads_at = plan.bytes;
  plan.bytes += align(sizeof(std::uint32_t) * static_cast<std::uint64_t>(schedules.few.most_units));
  plan.bests_at = plan.bytes;
  plan.bests_bytes = align(sizeof(BestLogit) * static_cast<std::uint64_t>(limits.outputs));
  plan.bytes += plan.bests_bytes * static_cast<std::uint64_t>(threads);
  const auto top_rows = static_cast<std::uint64_t>(std::min(most_top_rows, limits.outputs));
  plan.tops_at = plan.bytes;
  plan.tops_bytes = align(sizeof(BestLogit) * most_top_k * top_rows);
  plan.bytes += plan.tops_bytes * static_cast<std::uint64_t>(threads);
  plan.sums_at = plan.bytes;
  if (graph.logits != backend::none) {
    const std::int64_t columns = graph.values[static_cast<std::size_t>(graph.logits)].width;
    plan.bytes += align(sizeof(LogitSum) * top_rows * static_cast<std::uint64_t>(columns / sum_columns + 1));
  }
  for (const backend::RopeTable& table : graph.rope_tables) {
    plan.angles_at.push_back(plan.bytes);
    plan.bytes += align(8 * static_cast<std::uint64_t>(limits.tokens) * table.inverse_frequency.size());
  }
  ScratchNeeds needs{kernels, graph, limits, weights};
  for (const backend::Op& op : graph.ops) std::visit([&](const auto& o) { needs(o); }, op);
  plan.parts_at = plan.bytes;
  plan.bytes += align(sizeof(std::uint32_t) * static_cast<std::uint64_t>(threads));
  plan.states_at = plan.bytes;
  plan.states_bytes = align(needs.states);
  plan.bytes += plan.states_bytes * static_cast<std::uint64_t>(threads);
  plan.made_at = align(plan.bytes);
  plan.cursors_at = plan.made_at + line_bytes * static_cast<std::uint64_t>(threads);
  plan.bytes = plan.cursors_at + line_bytes * static_cast<std::uint64_t>(threads);
  plan.scratch_at = align(plan.bytes);
  plan.lists_at = align(needs.room);
  plan.scratch_bytes = plan.lists_at + align(needs.lists) + 128;
  plan.bytes =
      core::add_or_fail(plan.scratch_at,
                        core::mul_or_fail<std::uint64_t>(plan.scratch_bytes, static_cast<std::uint64_t>(threads),
                                                         "bytes of scratch", ErrorCode::out_of_memory),
                        what, ErrorCode::out_of_memory);
  return plan;
}

void check_supported(const backend::Graph& graph, const backend::Limits& limits) {
  const auto positive = [](std::int32_t value, const char* name) {
    if (value < 1 || value > (1 << 24)) core::fail(ErrorCode::invalid_argument, "limits.{}: {}", name, value);
  };
  positive(limits.tokens, "tokens");
  positive(limits.sequences, "sequences");
  positive(limits.outputs, "outputs");
  for (const backend::Op& op : graph.ops) {
    if (const auto* a = std::get_if<backend::PagedAttention>(&op)) {
      const backend::StateGroup& state = graph.states[static_cast<std::size_t>(a->slot.group)];
      if (state.v_width == 0) core::fail(ErrorCode::unsupported_type, "attention without values");
      if (a->mode == backend::AttentionMode::full && state.window > 0) {
        core::fail(ErrorCode::unsupported_type, "full attention with a window");
      }
    }
    if (const auto* e = std::get_if<backend::Embed>(&op)) {
      const backend::Weight& w = graph.weights[static_cast<std::size_t>(e->weight)];
      if (w.rows < graph.vocabulary) {
        core::fail(ErrorCode::corrupt, "weight {}: {} rows for {} tokens", w.name, w.rows, graph.vocabulary);
      }
    }
    if (const auto* m = std::get_if<backend::MoeMatMul>(&op)) {
      const backend::Weight& w = graph.weights[static_cast<std::size_t>(m->weight)];
      if (slab_format(w.type).kind != SlabKind::real && w.columns % 32 != 0) {
        core::fail(ErrorCode::unsupported_type, "weight {}: {} columns", w.name, w.columns);
      }
    }
  }
}

CpuProgram::CpuProgram(std::shared_ptr<Engine> engine, std::shared_ptr<const backend::Graph> graph,
                       const backend::WeightReader& reader, const backend::CompileOptions& options)
    : engine_(std::move(engine)), graph_(std::move(graph)), limits_(options.limits) {
  graph::check(*graph_);
  check_supported(*graph_, limits_);
  schedules_ = make_schedules(*graph_, limits_, engine_->memory);
  weights_ = plan_weights(*graph_, engine_->memory);
  plan_ = plan_workspace(*graph_, limits_, schedules_, weights_, engine_->kernels, engine_->pool->threads());
  for (const backend::Op& op : graph_->ops) {
    for (backend::ValueId in : graph::io_of(op).in) {
      logits_read_ = logits_read_ || (in == graph_->logits && in != backend::none);
    }
  }
  loaded_ = load_weights(*graph_, weights_, reader, options, *engine_->pool, engine_->memory);
}

Result<std::unique_ptr<backend::Workspace>> CpuProgram::workspace() const {
  return core::guard("workspace", [&]() -> std::unique_ptr<backend::Workspace> {
    core::Buffer memory = core::Buffer::make_zeroed(
        engine_->memory,
        core::cast_or_fail<std::size_t>(plan_.bytes, "bytes of a workspace", ErrorCode::out_of_memory));
    return std::make_unique<CpuWorkspace>(this, std::move(memory));
  });
}

Result<std::unique_ptr<backend::KvStorage>> CpuProgram::make_kv(backend::KvFormat format,
                                                                std::span<const std::int32_t> pages) const {
  return core::guard("make_kv", [&]() -> std::unique_ptr<backend::KvStorage> {
    return std::make_unique<CpuKvStorage>(graph_, format, pages, engine_->memory);
  });
}

backend::Status CpuProgram::run(const backend::StepBatch& batch, backend::KvStorage& kv, backend::Workspace& workspace,
                                const backend::StepOutputs& outputs, const backend::StopFlag& stop,
                                backend::ProfileSink* profile) const noexcept {
  auto* storage = dynamic_cast<CpuKvStorage*>(&kv);
  if (storage == nullptr || storage->graph() != graph_.get()) {
    return {ErrorCode::mismatch, "step: KV storage of another program"};
  }
  auto* memory = dynamic_cast<CpuWorkspace*>(&workspace);
  if (memory == nullptr || memory->owner() != this) return {ErrorCode::mismatch, "step: workspace of another program"};
  const device::BatchBounds bounds{graph_.get(), limits_, storage->pages(), kv_page};
  if (const backend::Status s = device::check_batch(bounds, batch, outputs); !s.ok()) return s;
  if (batch.tokens.empty()) return {};
  return Executor(*this, batch, *storage, *memory, outputs, stop, profile).run();
}

}  // namespace llminfer::cpu
