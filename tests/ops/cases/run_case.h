// Runs a case on one device.
#pragma once

#include "op_case.h"

namespace llminfer::op_cases {

/// Outputs of one step; what the kind does not have is empty.
struct StepResult {
  std::vector<float> values{};
  std::vector<std::int32_t> ids{};
  std::vector<float> scores{};
  std::vector<float> log_sum_exp{};
};

/// A compiled case with its memory.
class CaseRun {
 public:
  /// Errors of compile, workspace and make_kv.
  static Result<CaseRun> open(const backend::Backend& device, const OpCase& op_case);

  Result<StepResult> step(const CaseStep& step);

  /// Moves the contents of every page to the next place through host memory, and the tables with them: what a later
  /// step sees is the same. Also asks for what must be refused.
  Result<void> move_pages();

  /// Pages of a group in the storage, and of one sequence as they are in its table.
  std::int32_t pages(std::size_t group) const { return pages_[group]; }
  std::int32_t page_size() const noexcept { return page_size_; }
  std::vector<std::int32_t>& table(std::size_t group, std::size_t sequence) { return tables_[group][sequence]; }
  const backend::Limits& limits() const noexcept { return limits_; }
  const backend::Program& program() const noexcept { return *program_; }
  backend::KvStorage& kv() const noexcept { return *kv_; }
  backend::Workspace& workspace() const noexcept { return *workspace_; }

 private:
  void deal_pages(const OpCase& op_case);
  Result<void> soil_pages();
  Result<void> refuse_pages(std::int32_t group) const;

  std::shared_ptr<const backend::Graph> graph_;
  std::int32_t page_size_ = 0;
  backend::Limits limits_{1, 1, 0};
  std::vector<std::int32_t> pages_;
  std::vector<std::vector<std::vector<std::int32_t>>> tables_;  ///< group, sequence, entry
  std::shared_ptr<const backend::Program> program_;
  std::unique_ptr<backend::KvStorage> kv_;
  std::unique_ptr<backend::Workspace> workspace_;
};

/// A case's step as a StepBatch: holds what that borrows.
struct BatchData {
  std::vector<Token> tokens;
  std::vector<std::int32_t> positions;
  std::vector<backend::SequenceRange> sequences;
  std::vector<std::vector<std::int32_t>> pages;  ///< per group and sequence
  std::vector<backend::PageTable> tables;
  std::vector<std::int32_t> output_rows;

  /// Page tables as long as the step needs; entries that no query reaches are -1.
  static BatchData of(CaseRun& run, const backend::Graph& graph, const CaseStep& step);
  backend::StepBatch view() const;
};

/// Room for a step's outputs.
StepResult make_result(const backend::Graph& graph, const CaseStep& step);
backend::StepOutputs outputs_into(StepResult& result, const CaseStep& step);

}  // namespace llminfer::op_cases
