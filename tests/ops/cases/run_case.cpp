#include "run_case.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace llminfer::op_cases {
namespace {

class CaseWeights final : public backend::WeightReader {
 public:
  explicit CaseWeights(const OpCase& op_case) : case_(op_case) {}

  Result<void> read_rows(backend::WeightId weight, std::int64_t first_row, std::int64_t count,
                         std::span<std::byte> out) const override {
    if (weight < 0 || static_cast<std::size_t>(weight) >= case_.weights.size()) {
      return Error{ErrorCode::invalid_argument, "the device asks for weight " + std::to_string(weight)};
    }
    const backend::Weight& w = case_.graph->weights[static_cast<std::size_t>(weight)];
    const std::size_t row = row_bytes(w.type, w.columns);
    const bool inside = first_row >= 0 && count >= 0 && first_row <= w.rows * w.experts - count;
    if (!inside || out.size() != static_cast<std::size_t>(count) * row) {
      return Error{ErrorCode::invalid_argument, "the device asks for rows " + std::to_string(first_row) + " + " +
                                                    std::to_string(count) + " of weight " + w.name + " in " +
                                                    std::to_string(out.size()) + " bytes"};
    }
    const Bytes& bytes = case_.weights[static_cast<std::size_t>(weight)];
    if (!out.empty()) std::memcpy(out.data(), bytes.data() + static_cast<std::size_t>(first_row) * row, out.size());
    return {};
  }

 private:
  const OpCase& case_;
};

Error error_of(const backend::Status& status, const char* where) { return Error{status.code, status.message, where}; }

std::size_t sequence_count(const OpCase& op_case) {
  std::int32_t last = 0;
  for (const CaseStep& step : op_case.steps) {
    for (const Part& part : step.parts) last = std::max(last, part.sequence);
  }
  return static_cast<std::size_t>(last) + 1;
}

backend::Limits limits_of(const OpCase& op_case) {
  backend::Limits limits{1, 1, 0};
  for (const CaseStep& step : op_case.steps) {
    limits.tokens = std::max(limits.tokens, static_cast<std::int32_t>(step.tokens.size()));
    limits.sequences = std::max(limits.sequences, static_cast<std::int32_t>(step.parts.size()));
    limits.outputs = std::max(limits.outputs, static_cast<std::int32_t>(step.output_rows.size()));
  }
  return limits;
}

}  // namespace

Result<CaseRun> CaseRun::open(const backend::Backend& device, const OpCase& op_case) {
  CaseRun run;
  run.graph_ = op_case.graph;
  run.page_size_ = device.info().page_size;
  run.limits_ = limits_of(op_case);
  if (run.page_size_ <= 0) return Error{ErrorCode::invalid_argument, "the device's page size is not positive"};
  run.deal_pages(op_case);
  backend::CompileOptions options;
  options.limits = run.limits_;
  auto program = device.compile(op_case.graph, CaseWeights(op_case), options);
  if (!program) return program.error();
  run.program_ = std::move(*program);
  auto workspace = run.program_->workspace();
  if (!workspace) return workspace.error();
  run.workspace_ = std::move(*workspace);
  auto kv = run.program_->make_kv(op_case.kv, run.pages_);
  if (!kv) return kv.error();
  run.kv_ = std::move(*kv);
  const Result<void> soiled = run.soil_pages();
  if (!soiled) return soiled.error();
  return run;
}

/// Pages in scrambled order, some of the storage left over.
void CaseRun::deal_pages(const OpCase& op_case) {
  const std::size_t sequences = sequence_count(op_case);
  std::vector<std::int32_t> lengths(sequences, 0);
  for (const CaseStep& step : op_case.steps) {
    for (const Part& p : step.parts) {
      std::int32_t& length = lengths[static_cast<std::size_t>(p.sequence)];
      length = std::max(length, p.start + p.count);
    }
  }
  Random random(op_case.name);
  for (std::size_t g = 0; g < graph_->states.size(); ++g) {
    std::vector<std::vector<std::int32_t>> tables(sequences);
    std::int32_t total = 3;
    for (std::size_t s = 0; s < sequences; ++s) {
      tables[s].resize(static_cast<std::size_t>((lengths[s] + page_size_ - 1) / page_size_));
      total += static_cast<std::int32_t>(tables[s].size());
    }
    std::vector<std::int32_t> ids(static_cast<std::size_t>(total));
    std::iota(ids.begin(), ids.end(), 0);
    for (std::int32_t i = total - 1; i > 0; --i) {
      std::swap(ids[static_cast<std::size_t>(i)], ids[static_cast<std::size_t>(random.below(i + 1))]);
    }
    std::size_t next = 0;
    for (auto& table : tables) {
      for (std::int32_t& page : table) page = ids[next++];
    }
    pages_.push_back(total);
    tables_.push_back(std::move(tables));
  }
}

/// Pages come with what a sequence before left in them: large numbers in any format.
Result<void> CaseRun::soil_pages() {
  for (std::size_t g = 0; g < pages_.size(); ++g) {
    const auto group = static_cast<std::int32_t>(g);
    const Bytes dirt(kv_->page_bytes(group), std::byte{0x7b});
    for (std::int32_t page = 0; page < pages_[g]; ++page) {
      const backend::Status status = kv_->write_page(group, page, dirt);
      if (!status.ok()) return error_of(status, "KvStorage::write_page");
    }
  }
  return {};
}

Result<void> CaseRun::move_pages() {
  for (std::size_t g = 0; g < pages_.size(); ++g) {
    const auto group = static_cast<std::int32_t>(g);
    const std::int32_t last = pages_[g] - 1;
    Bytes end(kv_->page_bytes(group));
    Bytes page(end.size());
    backend::Status status = kv_->read_page(group, last, end);
    for (std::int32_t p = last - 1; p >= 0 && status.ok(); --p) {
      status = kv_->read_page(group, p, page);
      if (status.ok()) status = kv_->write_page(group, p + 1, page);
    }
    if (status.ok()) status = kv_->write_page(group, 0, end);
    if (!status.ok()) return error_of(status, "KvStorage::read_page, write_page");
    for (auto& table : tables_[g]) {
      for (std::int32_t& entry : table) entry = entry == last ? 0 : entry + 1;
    }
    const Result<void> refused = refuse_pages(group);
    if (!refused) return refused.error();
  }
  return {};
}

Result<void> CaseRun::refuse_pages(std::int32_t group) const {
  Bytes page(kv_->page_bytes(group));
  const std::span<std::byte> whole(page);
  const std::span<std::byte> part = whole.first(whole.size() - 1);
  const std::int32_t pages = pages_[static_cast<std::size_t>(group)];
  const auto groups = static_cast<std::int32_t>(pages_.size());
  const bool accepted = kv_->read_page(group, -1, whole).ok() || kv_->read_page(group, pages, whole).ok() ||
                        kv_->read_page(groups, 0, whole).ok() || kv_->read_page(-1, 0, whole).ok() ||
                        kv_->read_page(group, 0, part).ok() || kv_->write_page(group, -1, whole).ok() ||
                        kv_->write_page(group, pages, whole).ok() || kv_->write_page(groups, 0, whole).ok() ||
                        kv_->write_page(-1, 0, whole).ok() || kv_->write_page(group, 0, part).ok() ||
                        kv_->copy_page(group, 0, pages).ok() || kv_->copy_page(group, -1, 0).ok();
  if (!accepted) return {};
  return Error{ErrorCode::invalid_argument, "a page out of range, or of another size, is not refused", "KvStorage"};
}

BatchData BatchData::of(CaseRun& run, const backend::Graph& graph, const CaseStep& step) {
  BatchData data;
  data.tokens = step.tokens;
  data.output_rows = step.output_rows;
  std::int32_t first = 0;
  for (const Part& part : step.parts) {
    data.sequences.push_back({first, part.count, part.start, 0});
    for (std::int32_t i = 0; i < part.count; ++i) data.positions.push_back(part.start + i);
    first += part.count;
  }
  const std::int32_t size = run.page_size();
  for (std::size_t g = 0; g < graph.states.size(); ++g) {
    const std::int32_t window = graph.states[g].window;
    for (const Part& part : step.parts) {
      std::vector<std::int32_t> table = run.table(g, static_cast<std::size_t>(part.sequence));
      table.resize(static_cast<std::size_t>((part.start + part.count + size - 1) / size));
      const std::int32_t seen = window > 0 ? std::max(0, part.start - window + 1) / size : 0;
      std::fill_n(table.begin(), seen, -1);
      data.pages.push_back(std::move(table));
    }
  }
  for (const auto& table : data.pages) data.tables.push_back({table.data(), static_cast<std::int32_t>(table.size())});
  return data;
}

backend::StepBatch BatchData::view() const { return {tokens, positions, sequences, tables, output_rows}; }

StepResult make_result(const backend::Graph& graph, const CaseStep& step) {
  const auto width = [&](backend::ValueId id) {
    return static_cast<std::size_t>(graph.values[static_cast<std::size_t>(id)].width);
  };
  const std::size_t rows = step.output_rows.size();
  StepResult out;
  switch (step.kind) {
    case backend::OutputKind::logits:
      out.values.resize(rows * width(graph.logits));
      break;
    case backend::OutputKind::hidden:
      out.values.resize(rows * width(graph.hidden));
      break;
    case backend::OutputKind::arg_max:
      out.ids.resize(rows);
      out.scores.resize(rows);
      break;
    case backend::OutputKind::top_k:
      out.ids.resize(rows * static_cast<std::size_t>(step.k));
      out.scores.resize(out.ids.size());
      out.log_sum_exp.resize(rows);
      break;
  }
  return out;
}

backend::StepOutputs outputs_into(StepResult& result, const CaseStep& step) {
  return {step.kind, result.values, result.ids, result.scores, result.log_sum_exp, step.k, step.allowed};
}

Result<StepResult> CaseRun::step(const CaseStep& step) {
  const BatchData batch = BatchData::of(*this, *graph_, step);
  StepResult result = make_result(*graph_, step);
  const backend::StopFlag stop;
  const backend::Status status =
      program_->run(batch.view(), *kv_, *workspace_, outputs_into(result, step), stop, nullptr);
  if (!status.ok()) return error_of(status, "Program::run");
  return result;
}

}  // namespace llminfer::op_cases
