#include <algorithm>

#include "naive_program.hpp"

namespace naive {
namespace {

Status refuse(const char* why) { return {llminfer::ErrorCode::invalid_argument, why}; }

bool in_order(std::span<const std::int32_t> rows, std::size_t tokens) {
  std::int64_t last = -1;
  for (const std::int32_t r : rows) {
    if (r <= last || static_cast<std::size_t>(r) >= tokens) return false;
    last = r;
  }
  return true;
}

/// Ranges follow each other, and positions are those of the ranges.
bool good_ranges(const Graph& graph, const StepBatch& batch) {
  std::int64_t next = 0;
  const auto tokens = static_cast<std::int64_t>(batch.tokens.size());
  for (const SequenceRange& r : batch.sequences) {
    if (r.first != next || r.count < 1 || next + r.count > tokens) return false;
    if (r.start < 0 || std::int64_t{r.start} + r.count > graph.context) return false;
    for (std::int32_t i = 0; i < r.count; ++i) {
      if (batch.positions[static_cast<std::size_t>(next + i)] != r.start + i) return false;
    }
    next += r.count;
  }
  return next == tokens;
}

/// Every page from the first key a query sees to the last token.
bool good_pages(const StateGroup& group, std::int32_t pages, const PageTable& table, const SequenceRange& r) {
  const std::int32_t first = group.window > 0 ? std::max(0, r.start - group.window + 1) : 0;
  for (std::int32_t i = first / page_size; i <= (r.start + r.count - 1) / page_size; ++i) {
    if (table.pages == nullptr || i >= table.count || table.pages[i] < 0 || table.pages[i] >= pages) return false;
  }
  return true;
}

bool outputs_fit(const Graph& graph, std::size_t rows, const StepOutputs& out) {
  const auto width = [&](ValueId id) {
    return id == none ? std::size_t{0} : static_cast<std::size_t>(graph.values[static_cast<std::size_t>(id)].width);
  };
  const std::size_t vocabulary = width(graph.logits);
  if (!out.allowed.empty() && out.allowed.size() < rows * ((vocabulary + 31) / 32)) return false;
  switch (out.kind) {
    case OutputKind::logits:
      return out.values.size() >= rows * vocabulary;
    case OutputKind::hidden:
      return (rows == 0 || graph.hidden != none) && out.values.size() >= rows * width(graph.hidden);
    case OutputKind::arg_max:
      return out.ids.size() >= rows && out.scores.size() >= rows;
    case OutputKind::top_k: {
      if (out.k < 1 || static_cast<std::size_t>(out.k) > vocabulary) return false;
      const std::size_t all = rows * static_cast<std::size_t>(out.k);
      return out.ids.size() >= all && out.scores.size() >= all && out.log_sum_exp.size() >= rows;
    }
  }
  return false;
}

}  // namespace

Status check(const Graph& graph, const Limits& limits, const Cache& cache, const StepBatch& batch,
             const StepOutputs& outputs) noexcept {
  if (batch.tokens.size() > static_cast<std::size_t>(limits.tokens)) return refuse("too many tokens");
  if (batch.sequences.size() > static_cast<std::size_t>(limits.sequences)) return refuse("too many sequences");
  if (batch.output_rows.size() > static_cast<std::size_t>(limits.outputs)) return refuse("too many output rows");
  if (batch.positions.size() != batch.tokens.size()) return refuse("positions are not one a token");
  for (const llminfer::Token t : batch.tokens) {
    if (t < 0 || t >= graph.vocabulary) return refuse("a token outside the vocabulary");
  }
  if (!in_order(batch.output_rows, batch.tokens.size())) return refuse("output rows do not rise within the step");
  if (!good_ranges(graph, batch)) return refuse("ranges and positions do not fit the tokens");
  if (cache.groups() != graph.states.size()) return refuse("storage of another graph");
  if (batch.page_tables.size() != graph.states.size() * batch.sequences.size())
    return refuse("page tables are missing");
  for (std::size_t i = 0; i < batch.page_tables.size(); ++i) {
    const std::size_t group = i / batch.sequences.size();
    const SequenceRange& range = batch.sequences[i % batch.sequences.size()];
    if (!good_pages(graph.states[group], cache.pages(group), batch.page_tables[i], range)) return refuse("bad pages");
  }
  return outputs_fit(graph, batch.output_rows.size(), outputs) ? Status{} : refuse("outputs do not fit");
}

}  // namespace naive
