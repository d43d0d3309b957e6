// The state behind a Session. Session and Generator share it; the last of them frees it.
#pragma once

#include <chrono>
#include <llminfer/session.hpp>
#include <memory>
#include <optional>
#include <stop_token>

#include "api/model_body.h"
#include "api/profile_body.h"
#include "core/memory.h"
#include "runtime/executor.h"
#include "runtime/generation.h"
#include "runtime/pool.h"
#include "runtime/sampling/workspace.h"
#include "runtime/sequence.h"

namespace llminfer {
inline namespace v0 {

/// One thread at a time, except for the pool, which forks share under its mutex.
class Session::Body {
 public:
  using Clock = std::chrono::steady_clock;

  /// Throws what memory and the device report.
  Body(Model model, std::shared_ptr<runtime::Pool> pool, int context,
       runtime::Paging paging = runtime::Paging::at_append);
  ~Body();
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  enum class End { done, cancelled, deadline };

  /// Computes what is not computed, so that logits() belong to the last token. The history must not be empty.
  /// `deadline`: looked at between chunks. Throws what the device reports.
  End compute(const std::stop_token& stop, backend::StopFlag& flag, std::optional<Clock::time_point> deadline);
  /// As compute, for the generation's next token: where that needs the best logits alone, no others come from the
  /// device, and logits() is empty then. `row`: what it needs, once done; valid until something is computed.
  End compute_for(const runtime::Generation& generation, const std::stop_token& stop, backend::StopFlag& flag,
                  std::optional<Clock::time_point> deadline, runtime::ComputedRow& row);
  /// One step of `count` tokens with logits of all of them in rows(). Throws as compute, cancelled included.
  void score_chunk(int count, const std::stop_token& stop);

  void append(std::span<const Token> tokens);
  void rewind(int tokens);
  /// See runtime::Sequence::restore.
  void restore_pages(std::int32_t computed, std::span<const std::int32_t> given_back);
  /// Throws invalid_argument while a Generator is at work.
  void require_idle() const;

  /// Empty unless the last token is computed.
  std::span<const float> logits() const noexcept;
  bool logits_current() const noexcept;

  const Model model;
  const std::shared_ptr<runtime::Pool> pool;
  std::unique_ptr<runtime::Sequence> sequence;
  runtime::StepRows rows;  ///< row 0 is what logits() shows; further rows only for score
  int logits_at = 0;       ///< length of the history that row 0 belongs to; 0: none
  runtime::SamplerWorkspace sampler;
  bool generating = false;  ///< a Generator has not ended
  std::optional<api::ProfileUse> profiled;

  profile::Recorder* recorder() const noexcept { return profiled ? profiled->recorder().get() : nullptr; }

 private:
  End compute_with(const backend::StepOutputs& outputs, const std::stop_token& stop, backend::StopFlag& flag,
                   std::optional<Clock::time_point> deadline);
  backend::Status run(int count, runtime::RowsWanted wanted, const backend::StepOutputs& outputs,
                      const std::stop_token& stop, backend::StopFlag& flag);
  runtime::StepPlan plan_;
};

}  // namespace v0
}  // namespace llminfer
