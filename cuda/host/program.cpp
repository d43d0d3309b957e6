#include "host/program.h"

#include <algorithm>
#include <utility>

#include "core/checked.h"
#include "core/fail.h"
#include "core/guard.h"
#include "device/common/batch_check.h"
#include "graph/check.h"
#include "host/errors.h"
#include "host/executor.h"
#include "host/kv_storage.h"
#include "host/launch_lives.h"
#include "kernels/attention_mma.h"
#include "kernels/attention_plain.h"
#include "kernels/experts.h"
#include "kernels/matmul_quant.h"

namespace llminfer::cuda {
namespace {

constexpr std::uint64_t align(std::uint64_t bytes) noexcept { return (bytes + 255) / 256 * 256; }

/// Bytes of what fragments of so many rows and columns take.
struct FragmentsSize {
  std::int64_t fragments = 0, row_scales = 0, block_sums = 0;
};
FragmentsSize size_of_fragments(std::int64_t rows, std::int64_t columns) {
  if (rows == 0 || columns == 0) return {};
  const std::int64_t blocks = fragment_blocks(columns);
  return {fragments_bytes(rows, blocks), 4 * (rows + 8), 4 * block_sum_floats(rows, blocks)};
}
FragmentsSize largest(const FragmentsSize& a, const FragmentsSize& b) {
  return {std::max(a.fragments, b.fragments), std::max(a.row_scales, b.row_scales),
          std::max(a.block_sums, b.block_sums)};
}

/// At the end of what there is.
FragmentsPlan place_fragments(WorkspacePlan& plan, const FragmentsSize& size) {
  const auto place = [&plan](std::int64_t bytes) {
    return std::exchange(plan.bytes, plan.bytes + align(static_cast<std::uint64_t>(bytes)));
  };
  FragmentsPlan f;
  f.fragments = place(size.fragments);
  f.rest = place(plan.rests ? size.fragments : 0);
  f.row_scales = place(size.row_scales);
  f.block_sums = place(size.block_sums);
  return f;
}

/// Of the products of experts that read fragments.
struct ExpertsSize {
  std::int64_t tiles = 0, columns = 0, rows = 0;  // rows: of weights
};
ExpertsSize size_of_experts(const backend::Graph& graph, const backend::Limits& limits, const WeightPlan& weights) {
  ExpertsSize size;
  for (const backend::Op& op : graph.ops) {
    const auto* experts = std::get_if<backend::MoeMatMul>(&op);
    if (experts == nullptr) continue;
    const auto id = static_cast<std::size_t>(experts->weight);
    if (weights.weights[id].form != WeightForm::fragments) continue;
    const backend::Weight& w = graph.weights[id];
    const std::int64_t rows = std::max(limits.tokens, limits.outputs);
    size.tiles = std::max(size.tiles, expert_tiles(rows, experts->used, w.experts));
    size.columns = std::max(size.columns, w.columns);
    size.rows = std::max(size.rows, w.rows);
  }
  return size;
}

void check_tiles(const backend::Graph& graph, const backend::Limits& limits, const WeightPlan& weights) {
  const std::int64_t tiles = size_of_experts(graph, limits, weights).tiles;
  if (tiles > 65535) {
    core::fail(ErrorCode::invalid_argument, "limits.tokens: {}, too many for {} tiles of experts", limits.tokens,
               tiles);
  }
}

}  // namespace

WorkspacePlan plan_workspace(const backend::Graph& graph, const backend::Limits& limits, const WeightPlan& weights,
                             bool gemm) {
  WorkspacePlan plan;
  plan.values = graph::plan_memory(with_lives_of_launches(graph, find_fusions(graph, weights)), limits);
  plan.step = plan_step(graph, limits);
  const std::int64_t rows = std::max(limits.tokens, limits.outputs);
  const ExpertsSize experts = size_of_experts(graph, limits, weights);
  std::int64_t columns = 0;
  for (std::size_t id = 0; id < graph.weights.size(); ++id) {
    if (weights.weights[id].form != WeightForm::fragments) continue;
    const backend::Weight& w = graph.weights[id];
    plan.rests = plan.rests || w.type == WeightType::f16 || w.type == WeightType::bf16;
    columns = std::max(columns, w.columns);
  }
  plan.bytes = align(plan.values.total);
  const FragmentsSize of_experts = size_of_fragments(8 * experts.tiles, experts.columns);
  plan.sets[0] = place_fragments(plan, largest(size_of_fragments(rows, columns), of_experts));
  plan.sets[1] = place_fragments(
      plan, largest(size_of_fragments(std::min<std::int64_t>(rows, most_rows_folded), columns), of_experts));
  std::int64_t partials = columns > 0 ? matmul_partial_floats(rows) : 0, merges = 0, heads = 0;
  for (const backend::Op& op : graph.ops) {
    const auto* a = std::get_if<backend::PagedAttention>(&op);
    if (a == nullptr) continue;
    const backend::StateGroup& state = graph.states[static_cast<std::size_t>(a->slot.group)];
    partials = std::max(partials, attention_partial_floats(limits.tokens, graph.context, a->heads, state.v_width));
    heads = std::max(heads, std::int64_t{a->heads} + 2 * state.heads);
    merges = std::max(merges, attention_merges(limits.tokens, attention_head_blocks(a->heads, state.heads)));
  }
  if (gemm) partials = std::max(partials, static_cast<std::int64_t>(dense_gemm_bytes / 4));
  const auto place = [&plan](std::int64_t words) {
    return std::exchange(plan.bytes, plan.bytes + align(4 * static_cast<std::uint64_t>(words)));
  };
  plan.partials = place(partials);
  plan.counters = place(columns > 0 ? matmul_counters : 0);
  plan.arrivals = place(std::max<std::int64_t>(experts.tiles, most_rows_folded / 8));
  plan.columns = place((experts.rows + 63) / 64);
  plan.heads = place(heads);
  plan.merges = place(merges);
  plan.tiles = place(experts.tiles * (2 + 8 + 8 + 3));
  plan.most_tiles = static_cast<std::int32_t>(experts.tiles);
  if (graph.logits != backend::none) {
    plan.outputs = limits.outputs;
    plan.vocabulary = graph.values[static_cast<std::size_t>(graph.logits)].width;
  }
  for (const backend::ValueId id : {graph.logits, graph.hidden}) {
    if (id == backend::none) continue;
    const auto width = static_cast<std::uint64_t>(graph.values[static_cast<std::size_t>(id)].width);
    plan.logits_bytes =
        std::max(plan.logits_bytes, core::mul_or_fail(4 * width, static_cast<std::uint64_t>(limits.outputs),
                                                      "bytes of outputs", ErrorCode::out_of_memory));
  }
  return plan;
}

void check_supported(const backend::Graph& graph, const backend::Limits& limits) {
  const auto between = [](std::int32_t value, std::int32_t least, const char* name) {
    if (value < least || value > 65535) core::fail(ErrorCode::invalid_argument, "limits.{}: {}", name, value);
  };
  between(limits.tokens, 1, "tokens");
  between(limits.sequences, 1, "sequences");
  between(limits.outputs, 0, "outputs");
  for (const backend::StateGroup& s : graph.states) {
    if (std::max(s.k_width, s.v_width) > attention_plain_max_width) {
      core::fail(ErrorCode::unsupported_type, "heads of {} and {} values, at most {} are possible", s.k_width,
                 s.v_width, attention_plain_max_width);
    }
  }
  for (const backend::Op& op : graph.ops) {
    const auto* a = std::get_if<backend::PagedAttention>(&op);
    if (a != nullptr && graph.states[static_cast<std::size_t>(a->slot.group)].v_width == 0) {
      core::fail(ErrorCode::unsupported_type, "attention without values");
    }
    const auto* e = std::get_if<backend::Embed>(&op);
    if (e != nullptr && graph.weights[static_cast<std::size_t>(e->weight)].rows < graph.vocabulary) {
      core::fail(ErrorCode::corrupt, "an embedding of {} rows for {} tokens",
                 graph.weights[static_cast<std::size_t>(e->weight)].rows, graph.vocabulary);
    }
  }
}

CudaProgram::CudaProgram(std::shared_ptr<Engine> engine, std::shared_ptr<const backend::Graph> graph,
                         const backend::WeightReader& reader, const backend::CompileOptions& options)
    : engine_(std::move(engine)), graph_(std::move(graph)), limits_(options.limits) {
  graph::check(*graph_);
  check_supported(*graph_, limits_);
  weights_ = plan_weights(*graph_);
  check_tiles(*graph_, limits_, weights_);
  fusions_ = find_fusions(*graph_, weights_);
  plan_ = plan_workspace(*graph_, limits_, weights_, has_gemm(*engine_, *graph_, limits_));
  arena_ = load_weights(*graph_, weights_, reader, options, engine_);
  upload_tables();
}

void CudaProgram::upload_tables() {
  std::vector<float> all;
  for (const backend::RopeTable& t : graph_->rope_tables) {
    table_at_.push_back(all.size());
    all.insert(all.end(), t.inverse_frequency.begin(), t.inverse_frequency.end());
  }
  tables_ = Memory(engine_, Memory::Kind::device, 4 * all.size());
  if (all.empty()) return;
  const std::lock_guard<std::mutex> turn(engine_->turn);
  check(cudaMemcpyAsync(tables_.data(), all.data(), 4 * all.size(), cudaMemcpyHostToDevice, engine_->stream()),
        "copying RoPE tables");
  check(cudaStreamSynchronize(engine_->stream()), "copying RoPE tables");
}

Result<std::unique_ptr<backend::Workspace>> CudaProgram::workspace() const {
  return core::guard("workspace", [&]() -> std::unique_ptr<backend::Workspace> {
    auto space = std::make_unique<CudaWorkspace>(this, engine_, plan_);
    if (plan_.bytes > plan_.counters) {
      const std::lock_guard<std::mutex> turn(engine_->turn);
      check(cudaMemsetAsync(space->memory.data() + plan_.counters, 0, plan_.bytes - plan_.counters, engine_->stream()),
            "clearing counters");
    }
    return space;
  });
}

Result<std::unique_ptr<backend::KvStorage>> CudaProgram::make_kv(backend::KvFormat format,
                                                                 std::span<const std::int32_t> pages) const {
  return core::guard("make_kv", [&]() -> std::unique_ptr<backend::KvStorage> {
    return std::make_unique<CudaKvStorage>(engine_, graph_, format, pages);
  });
}

backend::Status CudaProgram::run(const backend::StepBatch& batch, backend::KvStorage& kv, backend::Workspace& workspace,
                                 const backend::StepOutputs& outputs, const backend::StopFlag& stop,
                                 backend::ProfileSink* profile) const noexcept {
  auto* storage = dynamic_cast<CudaKvStorage*>(&kv);
  if (storage == nullptr || storage->graph() != graph_.get()) {
    return {ErrorCode::mismatch, "step: KV storage of another program"};
  }
  auto* memory = dynamic_cast<CudaWorkspace*>(&workspace);
  if (memory == nullptr || memory->owner() != this) return {ErrorCode::mismatch, "step: workspace of another program"};
  const device::BatchBounds bounds{graph_.get(), limits_, storage->pages(), kv_page};
  if (const backend::Status s = device::check_batch(bounds, batch, outputs); !s.ok()) return s;
  if (batch.tokens.empty()) return {};
  try {
    const std::lock_guard<std::mutex> turn(engine_->turn);
    return Executor(*this, batch, *storage, *memory, outputs, stop, profile).run();
  } catch (...) {  // a mutex that cannot be locked
    return {ErrorCode::device_lost, "a step failed"};
  }
}

}  // namespace llminfer::cuda
