#include "runtime/executor.h"

namespace llminfer::runtime {

using backend::Status;

std::int32_t StepPlan::tokens() const noexcept {
  std::int32_t n = 0;
  for (const StepItem& item : items) n += item.count;
  return n;
}

std::int32_t StepPlan::outputs() const noexcept {
  std::int32_t n = 0;
  for (const StepItem& item : items) {
    if (item.rows == RowsWanted::last) ++n;
    if (item.rows == RowsWanted::all) n += item.count;
  }
  return n;
}

Executor::Executor(const backend::Graph& graph, const backend::Limits& limits)
    : limits_(limits), groups_(graph.states.size()) {
  tokens_.reserve(static_cast<std::size_t>(limits.tokens));
  positions_.reserve(static_cast<std::size_t>(limits.tokens));
  ranges_.reserve(static_cast<std::size_t>(limits.sequences));
  tables_.reserve(static_cast<std::size_t>(limits.sequences) * groups_);
  output_rows_.reserve(static_cast<std::size_t>(limits.outputs));
}

Status Executor::fill(const Pool& pool, const StepPlan& plan) noexcept {
  if (plan.tokens() > limits_.tokens || plan.outputs() > limits_.outputs ||
      plan.items.size() > static_cast<std::size_t>(limits_.sequences)) {
    return {ErrorCode::invalid_argument, "a step plan beyond the limits"};
  }
  tokens_.clear();
  positions_.clear();
  ranges_.clear();
  tables_.clear();
  output_rows_.clear();
  for (const StepItem& item : plan.items) {
    const Sequence& s = *item.sequence;
    if (s.pool().get() != &pool) return {ErrorCode::invalid_argument, "a sequence of another pool"};
    if (item.count <= 0 || item.count > s.size() - s.computed()) {
      return {ErrorCode::invalid_argument, "a step plan beyond what is left to compute"};
    }
    for (std::size_t g = 0; g < groups_; ++g) {
      const auto covered = static_cast<std::int64_t>(s.table(g).size()) * pool.page_size();
      if (covered < std::int64_t{s.computed()} + item.count) {
        return {ErrorCode::invalid_argument, "a step plan for tokens without pages"};
      }
    }
    const auto first = static_cast<std::int32_t>(tokens_.size());
    ranges_.push_back({first, item.count, s.computed(), 0});
    for (std::int32_t i = 0; i < item.count; ++i) {
      tokens_.push_back(s.tokens()[static_cast<std::size_t>(s.computed()) + static_cast<std::size_t>(i)]);
      positions_.push_back(s.computed() + i);
      const bool wanted = item.rows == RowsWanted::all || (item.rows == RowsWanted::last && i + 1 == item.count);
      if (wanted) output_rows_.push_back(first + i);
    }
  }
  for (std::size_t g = 0; g < groups_; ++g) {
    for (const StepItem& item : plan.items) {
      const core::Vector<std::int32_t>& table = item.sequence->table(g);
      tables_.push_back({table.data(), static_cast<std::int32_t>(table.size())});
    }
  }
  return {};
}

backend::StepBatch Executor::batch() const noexcept { return {tokens_, positions_, ranges_, tables_, output_rows_}; }

Status Executor::finish(const StepPlan& plan, Status status) noexcept {
  if (!status.ok()) return status;
  for (const StepItem& item : plan.items) item.sequence->commit(item.count);
  return status;
}

Status Executor::run(Pool& pool, const StepPlan& plan, const backend::StepOutputs& outputs,
                     const backend::StopFlag& stop, backend::ProfileSink* profile) noexcept {
  const Status filled = fill(pool, plan);
  if (!filled.ok()) return filled;
  return finish(plan, pool.program().run(batch(), pool.storage(), pool.workspace(), outputs, stop, profile));
}

Status Executor::run(Pool& pool, const StepPlan& plan, const backend::StepOutputs& outputs,
                     const backend::StopFlag& stop, profile::Recorder* recorder) noexcept {
  backend::ProfileSink* sink = recorder;
  if (recorder == nullptr) return run(pool, plan, outputs, stop, sink);
  const Status filled = fill(pool, plan);
  if (!filled.ok()) return filled;
  recorder->begin_step(batch());
  const Status status = pool.program().run(batch(), pool.storage(), pool.workspace(), outputs, stop, sink);
  recorder->end_step(status.ok());
  return finish(plan, status);
}

}  // namespace llminfer::runtime
