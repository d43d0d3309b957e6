// Runs a step plan: turns sequences into a flat batch, calls the program, and commits what was computed.
#pragma once

#include <llminfer/backend/backend.hpp>
#include <span>
#include <vector>

#include "profile/recorder.h"
#include "runtime/sequence.h"

namespace llminfer::runtime {

/// Which output rows of an item are wanted.
enum class RowsWanted : std::uint8_t { none, last, all };

/// The next `count` uncomputed tokens of one sequence.
struct StepItem {
  Sequence* sequence = nullptr;
  std::int32_t count = 0;
  RowsWanted rows = RowsWanted::none;
};

/// One step over sequences of one pool. Owned by its caller; each sequence at most once.
struct StepPlan {
  std::vector<StepItem> items{};

  std::int32_t tokens() const noexcept;
  std::int32_t outputs() const noexcept;
};

/// One per pool; the pool's mutex guards it. Allocates nothing after construction.
class Executor {
 public:
  Executor(const backend::Graph& graph, const backend::Limits& limits);

  /// A step is a transaction: when it returns ok all items are committed, else none. Rows come in the order of the
  /// items. Errors: invalid_argument for a plan beyond the limits or the tokens that are left to compute; what the
  /// device reports.
  backend::Status run(Pool& pool, const StepPlan& plan, const backend::StepOutputs& outputs,
                      const backend::StopFlag& stop, backend::ProfileSink* profile = nullptr) noexcept;
  /// As above, the step and its spans recorded. Null: not.
  backend::Status run(Pool& pool, const StepPlan& plan, const backend::StepOutputs& outputs,
                      const backend::StopFlag& stop, profile::Recorder* recorder) noexcept;

 private:
  backend::Status fill(const Pool& pool, const StepPlan& plan) noexcept;
  backend::StepBatch batch() const noexcept;
  static backend::Status finish(const StepPlan& plan, backend::Status status) noexcept;

  backend::Limits limits_;
  std::size_t groups_;
  // The flat batch, rebuilt for each step within the capacity reserved once.
  std::vector<Token> tokens_;
  std::vector<std::int32_t> positions_;
  std::vector<backend::SequenceRange> ranges_;
  std::vector<backend::PageTable> tables_;
  std::vector<std::int32_t> output_rows_;
};

}  // namespace llminfer::runtime
