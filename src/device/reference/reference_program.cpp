#include "device/reference/reference_program.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/fail.h"
#include "core/guard.h"
#include "core/vector.h"
#include "device/common/batch_check.h"
#include "device/common/reduce_outputs.h"
#include "device/reference/ops.h"
#include "graph/check.h"
#include "quant/type_table.h"

namespace llminfer::device::reference {
namespace {

using backend::Status;

class ReferenceWorkspace final : public backend::Workspace {
 public:
  core::Buffer activations;
  core::Array<double> scores;
  core::Array<float> row;
};

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::size_t scratch_doubles(const backend::Graph& graph) {
  auto count = static_cast<std::size_t>(graph.context);
  for (const backend::Op& op : graph.ops) {
    const auto* route = std::get_if<backend::MoeRoute>(&op);
    if (route != nullptr)
      count = std::max(count, 2 * static_cast<std::size_t>(route->experts) + static_cast<std::size_t>(route->used));
  }
  return count;
}

std::size_t row_floats(const backend::Graph& graph) {
  std::int32_t widest = 1;
  for (const backend::StateGroup& s : graph.states) widest = std::max({widest, s.k_width, s.v_width});
  return static_cast<std::size_t>(widest);
}

ReferenceProgram::ReferenceProgram(std::shared_ptr<const backend::Graph> graph, const backend::WeightReader& reader,
                                   const backend::CompileOptions& options, std::shared_ptr<core::Memory> memory,
                                   std::shared_ptr<std::mutex> turn)
    : graph_(std::move(graph)),
      limits_(options.limits),
      memory_(std::move(memory)),
      turn_(std::move(turn)),
      weights_(memory_) {
  graph::check(*graph_);
  if (limits_.tokens <= 0 || limits_.sequences <= 0 || limits_.outputs < 0) {
    core::fail(ErrorCode::invalid_argument, "limits are {} tokens, {} sequences, {} outputs", limits_.tokens,
               limits_.sequences, limits_.outputs);
  }
  plan_ = graph::plan_memory(*graph_, limits_, memory_);
  load(reader, options);
}

void ReferenceProgram::load(const backend::WeightReader& reader, const backend::CompileOptions& options) {
  core::Vector<std::byte> packed(memory_);
  weights_.reserve(graph_->weights.size());
  for (std::size_t id = 0; id < graph_->weights.size(); ++id) {
    const backend::Weight& w = graph_->weights[id];
    const quant::QuantType& type = *quant::find(w.type);
    FloatWeight out;
    out.columns = w.columns;
    out.rows = w.rows * w.experts;
    out.values =
        core::Array<float>::make(memory_, static_cast<std::size_t>(out.columns) * static_cast<std::size_t>(out.rows));
    const std::uint64_t row_bytes = quant::row_bytes(w.type, static_cast<std::uint64_t>(w.columns));
    const std::int64_t step = std::max<std::int64_t>(1, std::int64_t{1 << 20} / w.columns);
    for (std::int64_t r = 0; r < out.rows; r += step) {
      if (options.stop.stop_requested()) core::fail(ErrorCode::cancelled, "cancelled while loading '{}'", w.name);
      const std::int64_t n = std::min(step, out.rows - r);
      packed.resize(static_cast<std::size_t>(n) * row_bytes);
      const Result<void> read = reader.read_rows(static_cast<backend::WeightId>(id), r, n, packed);
      if (!read) throw Exception(read.error());
      type.unpack_row(packed.data(), out.values.data() + r * w.columns, static_cast<std::size_t>(n * w.columns));
    }
    weights_.push_back(std::move(out));
    if (options.progress) options.progress(static_cast<double>(id + 1) / static_cast<double>(graph_->weights.size()));
  }
}

Result<std::unique_ptr<backend::Workspace>> ReferenceProgram::workspace() const {
  return core::guard("Program::workspace", [&]() -> std::unique_ptr<backend::Workspace> {
    auto out = std::make_unique<ReferenceWorkspace>();
    out->activations = core::Buffer::make(memory_, plan_.total);
    out->scores = core::Array<double>::make(memory_, scratch_doubles(*graph_));
    out->row = core::Array<float>::make(memory_, row_floats(*graph_));
    return out;
  });
}

Result<std::unique_ptr<backend::KvStorage>> ReferenceProgram::make_kv(backend::KvFormat format,
                                                                      std::span<const std::int32_t> pages) const {
  return core::guard("Program::make_kv", [&]() -> std::unique_ptr<backend::KvStorage> {
    return std::make_unique<PagedRows>(*graph_, format, pages, memory_);
  });
}

Status ReferenceProgram::run(const backend::StepBatch& batch, backend::KvStorage& kv, backend::Workspace& workspace,
                             const backend::StepOutputs& outputs, const backend::StopFlag& stop,
                             backend::ProfileSink* profile) const noexcept {
  auto* pages = dynamic_cast<PagedRows*>(&kv);
  auto* space = dynamic_cast<ReferenceWorkspace*>(&workspace);
  if (pages == nullptr || space == nullptr) return {ErrorCode::mismatch, "KV storage or workspace of another device"};
  const Status status = check_batch({graph_.get(), limits_, pages->pages(), page_size}, batch, outputs);
  if (!status.ok()) return status;
  try {
    const std::lock_guard<std::mutex> turn(*turn_);
    const Step step{
        *graph_,          batch, weights_, plan_.offsets, space->activations.data(), *pages, space->scores.span(),
        space->row.span()};
    return run_ops(step, outputs, stop, profile);
  } catch (const std::bad_alloc&) {  // Eigen's scratch for large products
    return {ErrorCode::out_of_memory, "out of memory in a step"};
  } catch (...) {
    return {ErrorCode::device_lost, "a step failed"};
  }
}

Status ReferenceProgram::run_ops(const Step& step, const backend::StepOutputs& outputs, const backend::StopFlag& stop,
                                 backend::ProfileSink* profile) const {
  const bool hidden_only = outputs.kind == backend::OutputKind::hidden;
  for (const backend::OpGroup& group : graph_->groups) {
    if (stop.requested()) return {ErrorCode::cancelled, "cancelled in a step"};
    for (std::int32_t i = group.first; i < group.first + group.count; ++i) {
      const auto index = static_cast<std::size_t>(i);
      const std::int64_t start = profile == nullptr ? 0 : now_ns();
      std::visit([&](const auto& op) { run_op(op, step); }, graph_->ops[index]);
      if (profile != nullptr) profile->on_span({start, now_ns(), 0, i, 1});
      // The head's product is the one that costs: leave it out when only its input is wanted.
      const auto* norm = std::get_if<backend::RmsNorm>(&graph_->ops[index]);
      if (hidden_only && norm != nullptr && norm->out == graph_->hidden) break;
    }
  }
  const backend::ValueId wanted = hidden_only ? graph_->hidden : graph_->logits;
  const std::size_t rows = step.batch.output_rows.size();
  if (rows == 0 || wanted == backend::none) return {};
  const auto width = static_cast<std::size_t>(step.width(wanted));
  if (hidden_only || outputs.kind == backend::OutputKind::logits) {
    std::memcpy(outputs.values.data(), step.data(wanted), rows * width * sizeof(float));
    return {};
  }
  for (std::size_t r = 0; r < rows; ++r) {
    reduce_row({step.data(wanted, static_cast<std::int64_t>(r)), width}, r, outputs);
  }
  return {};
}

}  // namespace llminfer::device::reference
