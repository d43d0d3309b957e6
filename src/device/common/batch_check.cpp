#include "device/common/batch_check.h"

#include <algorithm>

namespace llminfer::device {
namespace {

using backend::Graph;
using backend::OutputKind;
using backend::PageTable;
using backend::SequenceRange;
using backend::StateGroup;
using backend::Status;
using backend::StepBatch;
using backend::StepOutputs;

constexpr Status ok{};
constexpr Status bad(const char* message) { return {ErrorCode::invalid_argument, message}; }

Status check_counts(const BatchBounds& bounds, const StepBatch& batch) noexcept {
  const auto limit = [](std::int32_t n) { return static_cast<std::size_t>(std::max(n, 0)); };
  if (batch.tokens.size() > limit(bounds.limits.tokens)) return bad("more tokens in a step than the limit");
  if (batch.sequences.size() > limit(bounds.limits.sequences)) return bad("more sequences in a step than the limit");
  if (batch.output_rows.size() > limit(bounds.limits.outputs)) return bad("more output rows in a step than the limit");
  if (batch.positions.size() != batch.tokens.size()) return bad("positions and tokens differ in number");
  if (batch.page_tables.size() != bounds.graph->states.size() * batch.sequences.size()) {
    return bad("page tables are not one a state group and sequence");
  }
  return ok;
}

Status check_tokens(const Graph& graph, const StepBatch& batch) noexcept {
  for (const Token t : batch.tokens) {
    if (t < 0 || t >= graph.vocabulary) return bad("a token id is outside the vocabulary");
  }
  std::int32_t previous = -1;
  for (const std::int32_t row : batch.output_rows) {
    if (row <= previous || static_cast<std::size_t>(row) >= batch.tokens.size())
      return bad("output rows must rise within the step");
    previous = row;
  }
  return ok;
}

Status check_ranges(const Graph& graph, const StepBatch& batch) noexcept {
  std::int64_t next = 0;
  for (const SequenceRange& r : batch.sequences) {
    if (r.adapter != 0) return {ErrorCode::unavailable, "adapters are not supported"};
    if (r.first != next || r.count <= 0 || r.count > static_cast<std::int64_t>(batch.tokens.size()) - next) {
      return bad("sequence ranges do not cover the tokens in order");
    }
    if (r.start < 0 || std::int64_t{r.start} + r.count > graph.context) return bad("a position is outside the context");
    for (std::int32_t i = 0; i < r.count; ++i) {
      if (batch.positions[static_cast<std::size_t>(r.first) + static_cast<std::size_t>(i)] != r.start + i)
        return bad("positions do not count up");
    }
    next += r.count;
  }
  if (next != static_cast<std::int64_t>(batch.tokens.size())) return bad("sequence ranges do not cover the tokens");
  return ok;
}

Status check_pages(const BatchBounds& bounds, const StateGroup& group, std::int32_t pages, const PageTable& table,
                   const SequenceRange& r) noexcept {
  const std::int64_t end = std::int64_t{r.start} + r.count;
  if (table.pages == nullptr || std::int64_t{table.count} * bounds.page_size < end)
    return bad("a page table is too short");
  const std::int64_t first = group.window > 0 ? std::max<std::int64_t>(0, std::int64_t{r.start} - group.window + 1) : 0;
  for (std::int64_t i = first / bounds.page_size; i <= (end - 1) / bounds.page_size; ++i) {
    const std::int32_t page = table.pages[i];
    if (page < 0 || page >= pages) return bad("a page that a query sees is missing");
  }
  return ok;
}

Status check_outputs(const Graph& graph, const StepBatch& batch, const StepOutputs& out) noexcept {
  const std::size_t rows = batch.output_rows.size();
  const auto width = [&](backend::ValueId id) {
    return id == backend::none ? std::size_t{0}
                               : static_cast<std::size_t>(graph.values[static_cast<std::size_t>(id)].width);
  };
  const std::size_t vocabulary = width(graph.logits);
  if (!out.allowed.empty() && out.allowed.size() < rows * ((vocabulary + 31) / 32))
    return bad("the token mask is too short");
  if (out.kind != OutputKind::hidden && rows > 0 && graph.logits == backend::none)
    return bad("the graph has no logits");
  switch (out.kind) {
    case OutputKind::logits:
      return out.values.size() < rows * vocabulary ? bad("the logits span is too short") : ok;
    case OutputKind::hidden:
      if (rows > 0 && graph.hidden == backend::none) return bad("the graph has no hidden state");
      return out.values.size() < rows * width(graph.hidden) ? bad("the hidden state span is too short") : ok;
    case OutputKind::arg_max:
      return std::min(out.ids.size(), out.scores.size()) < rows ? bad("an output span is too short") : ok;
    case OutputKind::top_k: {
      const auto k = static_cast<std::size_t>(std::max(out.k, 0));
      if (k == 0 || k > vocabulary) return bad("k of the top-k output is outside the vocabulary");
      const bool fits = out.ids.size() >= rows * k && out.scores.size() >= rows * k && out.log_sum_exp.size() >= rows;
      return fits ? ok : bad("an output span is too short");
    }
  }
  return bad("unknown output kind");
}

}  // namespace

Status check_batch(const BatchBounds& bounds, const StepBatch& batch, const StepOutputs& outputs) noexcept {
  const Graph& graph = *bounds.graph;
  Status status = check_counts(bounds, batch);
  if (status.ok()) status = check_tokens(graph, batch);
  if (status.ok()) status = check_ranges(graph, batch);
  if (status.ok() && bounds.pages.size() != graph.states.size()) status = bad("the KV storage is of another graph");
  for (std::size_t g = 0; status.ok() && g < graph.states.size(); ++g) {
    for (std::size_t s = 0; status.ok() && s < batch.sequences.size(); ++s) {
      const PageTable& table = batch.page_tables[g * batch.sequences.size() + s];
      status = check_pages(bounds, graph.states[g], bounds.pages[g], table, batch.sequences[s]);
    }
  }
  if (status.ok()) status = check_outputs(graph, batch, outputs);
  return status;
}

}  // namespace llminfer::device
