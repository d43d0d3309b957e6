// Where the time of one engine goes: steps by op, and what its thread does between them. Records without allocating.
#pragma once

#include <array>
#include <cstdint>
#include <llminfer/profile_report.hpp>
#include <memory>
#include <mutex>
#include <vector>

#include "core/clock.h"
#include "profile/cost_model.h"
#include "profile/span_split.h"

namespace llminfer::profile {

/// What the engine's thread does. Every moment belongs to one of them.
enum class Part : std::uint8_t {
  outside,     ///< the application: its callbacks, and between the calls of a Session
  idle,        ///< a batcher that has nothing to compute
  scheduling,  ///< plans, pages, locks
  sampling,    ///< choosing tokens, and their text
  step,        ///< in the device
};
constexpr std::size_t parts = 5;

/// Sums over the steps of one phase, in nanoseconds.
struct PhaseTotals {
  std::uint64_t steps = 0;
  std::uint64_t tokens = 0;
  std::uint64_t sequences = 0;                 ///< summed over steps
  std::uint64_t context = 0;                   ///< tokens before the step, summed over steps and sequences
  std::int64_t step_ns = 0;                    ///< between begin_step and end_step
  std::int64_t span_ns = 0;                    ///< of these, in spans
  std::int64_t wait_ns = 0;                    ///< of these, waiting at barriers
  std::array<std::int64_t, parts> after_ns{};  ///< between a step of this phase and the next step, by part
  std::vector<double> op_ns{};                 ///< per op, waiting not included
  std::vector<double> op_expected_s{};         ///< per op: what the cost model says
  std::vector<double> op_roof_s{};
  std::vector<double> op_memory_s{};
  std::vector<double> op_compute_s{};
  std::vector<double> op_kv_s{};  ///< of the memory time, what reads the cache
  std::vector<graph::OpCost> op_cost{};
};

struct Totals {
  std::int64_t wall_ns = 0;
  std::array<std::int64_t, parts> part_ns{};      ///< adds up to wall_ns
  std::array<PhaseTotals, phase_kinds> phases{};  ///< by PhaseKind
  std::int64_t cached_tokens = 0;                 ///< of the last step's sequences
};

/// Events come from one thread at a time, the engine's; totals() and reset() from any.
class Recorder final : public backend::ProfileSink {
 public:
  /// `most_sequences`: of a step.
  Recorder(std::shared_ptr<const backend::Graph> graph, backend::KvFormat kv, CostModel model,
           std::int32_t most_sequences,
           std::shared_ptr<const core::Clock> clock = std::make_shared<core::SteadyClock>());

  /// The time since the last event belongs to the part before; from now on it belongs to this one.
  void enter(Part part) noexcept;
  void begin_step(const backend::StepBatch& batch) noexcept;
  void on_span(const backend::OpSpan& span) noexcept override;
  /// From here on scheduling. A step that failed counts as time, not as tokens.
  void end_step(bool ok) noexcept;

  Totals totals() const;
  void reset();

  const backend::Graph& graph() const noexcept { return *graph_; }
  const CostModel& model() const noexcept { return model_; }
  backend::KvFormat kv() const noexcept { return kv_; }

 private:
  void switch_to(Part part, std::int64_t now) noexcept;
  void fold(PhaseTotals& phase) noexcept;
  PhaseTotals empty_phase() const;

  std::shared_ptr<const backend::Graph> graph_;
  backend::KvFormat kv_;
  CostModel model_;
  std::shared_ptr<const core::Clock> clock_;  // the one that spans are in
  graph::BatchShape batch_;                   // of the running step, within the capacity reserved once
  StepCosts costs_;
  ShareCache shares_;
  std::vector<backend::OpSpan> spans_;
  PhaseKind phase_ = PhaseKind::prefill;  // of the running or last step
  bool had_step_ = false;

  mutable std::mutex mutex_;
  Part part_ = Part::outside;
  std::int64_t since_ = 0;  // when the part began
  std::int64_t start_ = 0;
  Totals totals_;
};

/// A part for the time of a scope, then the one before. Null recorder: nothing.
class PartScope {
 public:
  PartScope(Recorder* recorder, Part part, Part after) noexcept : recorder_(recorder), after_(after) {
    if (recorder_ != nullptr) recorder_->enter(part);
  }
  PartScope(const PartScope&) = delete;
  PartScope& operator=(const PartScope&) = delete;
  ~PartScope() {
    if (recorder_ != nullptr) recorder_->enter(after_);
  }

 private:
  Recorder* recorder_;
  Part after_;
};

}  // namespace llminfer::profile
