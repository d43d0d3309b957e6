#include "profile/recorder.h"

#include <algorithm>

namespace llminfer::profile {
namespace {

PhaseKind phase_of(std::span<const backend::SequenceRange> sequences) noexcept {
  bool single = false, many = false;
  for (const backend::SequenceRange& s : sequences) (s.count == 1 ? single : many) = true;
  return single && many ? PhaseKind::mixed : many ? PhaseKind::prefill : PhaseKind::decode;
}

std::size_t at(Part part) noexcept { return static_cast<std::size_t>(part); }
std::size_t at(PhaseKind phase) noexcept { return static_cast<std::size_t>(phase); }

}  // namespace

Recorder::Recorder(std::shared_ptr<const backend::Graph> graph, backend::KvFormat kv, CostModel model,
                   std::int32_t most_sequences, std::shared_ptr<const core::Clock> clock)
    : graph_(std::move(graph)), kv_(kv), model_(std::move(model)), clock_(std::move(clock)), costs_(*graph_) {
  batch_.sequences.reserve(static_cast<std::size_t>(most_sequences));
  batch_.kv = kv;
  spans_.reserve(2 * graph_->ops.size() + 16);
  reset();
}

PhaseTotals Recorder::empty_phase() const {
  PhaseTotals out;
  const std::size_t n = graph_->ops.size();
  out.op_ns.resize(n);
  out.op_expected_s.resize(n);
  out.op_roof_s.resize(n);
  out.op_memory_s.resize(n);
  out.op_compute_s.resize(n);
  out.op_kv_s.resize(n);
  out.op_cost.resize(n);
  return out;
}

void Recorder::reset() {
  Totals fresh;
  for (PhaseTotals& phase : fresh.phases) phase = empty_phase();
  const std::lock_guard<std::mutex> lock(mutex_);
  totals_ = std::move(fresh);
  start_ = since_ = clock_->now_ns();
  had_step_ = false;
}

/// Under the mutex.
void Recorder::switch_to(Part part, std::int64_t now) noexcept {
  const std::int64_t time = now - since_;
  totals_.part_ns[at(part_)] += time;
  if (had_step_ && part_ != Part::step) totals_.phases[at(phase_)].after_ns[at(part_)] += time;
  part_ = part;
  since_ = now;
}

void Recorder::enter(Part part) noexcept {
  const std::int64_t now = clock_->now_ns();
  const std::lock_guard<std::mutex> lock(mutex_);
  switch_to(part, now);
}

void Recorder::begin_step(const backend::StepBatch& batch) noexcept {
  spans_.clear();
  batch_.sequences.clear();
  for (const backend::SequenceRange& s : batch.sequences) {
    if (batch_.sequences.size() < batch_.sequences.capacity()) batch_.sequences.push_back({s.start, s.count});
  }
  batch_.outputs = static_cast<std::int32_t>(batch.output_rows.size());
  const std::int64_t now = clock_->now_ns();
  const std::lock_guard<std::mutex> lock(mutex_);
  switch_to(Part::step, now);
  phase_ = phase_of(batch.sequences);
}

void Recorder::on_span(const backend::OpSpan& span) noexcept {
  if (spans_.size() < spans_.capacity()) spans_.push_back(span);
}

void Recorder::end_step(bool ok) noexcept {
  const std::int64_t now = clock_->now_ns();
  costs_.fill(*graph_, batch_, model_);
  const std::lock_guard<std::mutex> lock(mutex_);
  PhaseTotals& phase = totals_.phases[at(phase_)];
  phase.step_ns += now - since_;
  switch_to(Part::scheduling, now);
  had_step_ = true;
  if (!ok) return;
  ++phase.steps;
  phase.tokens += static_cast<std::uint64_t>(batch_.tokens());
  phase.sequences += batch_.sequences.size();
  totals_.cached_tokens = 0;
  for (const graph::SequenceShape& s : batch_.sequences) {
    phase.context += static_cast<std::uint64_t>(s.start);
    totals_.cached_tokens += s.start + s.count;
  }
  fold(phase);
}

/// Under the mutex: the step's spans and costs, op by op.
void Recorder::fold(PhaseTotals& phase) noexcept {
  for (const backend::OpSpan& span : spans_) {
    const std::int64_t time = std::max<std::int64_t>(0, span.end_ns - span.start_ns);
    const std::int64_t wait = std::clamp<std::int64_t>(span.wait_ns, 0, time);
    phase.span_ns += time;
    phase.wait_ns += wait;
    costs_.split(span,
                 [&](std::size_t op, double share) { phase.op_ns[op] += share * static_cast<double>(time - wait); });
  }
  shares_.clear();
  for (std::size_t i = 0; i < graph_->ops.size(); ++i) {
    const graph::OpCost& cost = costs_.cost(i);
    phase.op_cost[i] += cost;
    const RoofTime roof = costs_.roof_time(i);
    phase.op_roof_s[i] += roof.seconds();
    phase.op_memory_s[i] += roof.memory_s;
    phase.op_compute_s[i] += roof.compute_s;
    phase.op_kv_s[i] += static_cast<double>(cost.kv_read_bytes) / model_.memory_rate();
    phase.op_expected_s[i] += model_.seconds(*graph_, i, cost, batch_, costs_.resident(), &shares_);
  }
}

Totals Recorder::totals() const {
  const std::int64_t now = clock_->now_ns();
  const std::lock_guard<std::mutex> lock(mutex_);
  Totals out = totals_;
  const std::int64_t open = std::max<std::int64_t>(0, now - since_);
  out.part_ns[at(part_)] += open;  // the part that still runs
  out.wall_ns = now - start_;
  return out;
}

}  // namespace llminfer::profile
