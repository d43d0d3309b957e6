#include "device/cpu/executor.h"

#include <algorithm>
#include <cstring>

#include "core/clock.h"
#include "device/common/reduce_outputs.h"
#include "device/cpu/angles.h"
#include "device/cpu/attention_phase.h"

namespace llminfer::cpu {
namespace {

constexpr std::size_t never = ~std::size_t{0};

}  // namespace

Executor::Executor(const CpuProgram& program, const backend::StepBatch& batch, CpuKvStorage& kv,
                   CpuWorkspace& workspace, const backend::StepOutputs& outputs, const backend::StopFlag& stop,
                   backend::ProfileSink* profile) noexcept
    : program_(program),
      kernels_(program.engine().kernels),
      few_(batch.tokens.size() <= static_cast<std::size_t>(most_few_rows)),
      schedule_(program.schedule(few_ ? ScheduleKind::few_rows : ScheduleKind::many_rows)),
      batch_(batch),
      kv_(kv),
      base_(workspace.data()),
      outputs_(outputs),
      stop_(stop),
      profile_(profile),
      bests_(outputs.kind == backend::OutputKind::arg_max && schedule_.logits_in_columns()),
      tops_(outputs.kind == backend::OutputKind::top_k && schedule_.logits_in_columns() && outputs.k <= most_top_k &&
            batch.output_rows.size() <= static_cast<std::size_t>(most_top_rows)),
      tokens_(static_cast<std::int64_t>(batch.tokens.size())),
      outputs_count_(static_cast<std::int64_t>(batch.output_rows.size())),
      logits_(outputs.kind == backend::OutputKind::logits && !program.logits_read() ? outputs.values.data() : nullptr),
      stop_after_(never) {}

backend::Status Executor::run() noexcept {
  Claims::forget(base_ + program_.plan().cursors_at, program_.engine().pool->threads());
  core::parallel(*program_.engine().pool, [this](int thread, int threads) noexcept { work(thread, threads); });
  if (stop_after_.load(std::memory_order_relaxed) != never) return {ErrorCode::cancelled, "step: stopped"};
  return {};
}

std::int64_t Executor::now() const noexcept { return profile_ != nullptr ? core::SteadyClock().now_ns() : 0; }

void Executor::work(int thread, int threads) noexcept {
  core::ThreadPool& pool = *program_.engine().pool;
  const core::Vector<Phase>& phases = schedule_.phases;
  const std::size_t count = outputs_.kind == backend::OutputKind::hidden ? schedule_.hidden_phases : phases.size();
  angles(thread, threads);
  if (!program_.graph().rope_tables.empty()) pool.barrier(thread);  // any thread may want those of any row
  for (std::size_t p = 0; p < count; ++p) {
    if (row_count(phases[p].rows) == 0) continue;  // nothing wanted out
    const std::int64_t start = thread == 0 ? now() : 0;
    run_phase(phases[p], thread, threads);
    if (few_) ask_ahead(p, thread, threads);
    const bool barrier = Schedule::has_barrier(phases[p]);
    if (barrier && thread == 0 && stop_.requested()) stop_after_.store(p, std::memory_order_relaxed);
    const std::int64_t worked = thread == 0 ? now() : 0;
    if (barrier) pool.barrier(thread);
    if (thread == 0 && profile_ != nullptr) profile_phase(phases[p], start, worked);
    if (barrier && stop_after_.load(std::memory_order_relaxed) <= p) return;
  }
  finish(thread, threads);
}

void Executor::profile_phase(const Phase& phase, std::int64_t start, std::int64_t worked) noexcept {
  backend::OpSpan span;
  span.start_ns = start;
  span.end_ns = now();
  span.wait_ns = span.end_ns - worked;
  span.first_op = phase.first_op;
  span.op_count = phase.op_count;
  profile_->on_span(span);
}

void Executor::run_phase(const Phase& phase, int thread, int threads) noexcept {
  made(thread) = {};
  switch (phase.kind) {
    case PhaseKind::rows:
      rows(phase, thread, threads);
      return;
    case PhaseKind::matmul:
      matmul(phase, thread, threads);
      return;
    case PhaseKind::moe_matmul:
      expert_list(phase, thread, threads);
      return;
    case PhaseKind::attention:
      AttentionPhase(*this, phase, thread, threads).work();
      return;
  }
}

std::byte* Executor::own_base(int thread) const noexcept {
  return base_ + program_.plan().own_at + program_.plan().own_bytes * static_cast<std::uint64_t>(thread);
}

float* Executor::value(backend::ValueId id, std::int64_t r, int thread) const noexcept {
  const std::size_t i = static_cast<std::size_t>(id);
  if (logits_ != nullptr && id == program_.graph().logits) return logits_ + r * width(id);
  const std::uint64_t at = schedule_.value_at[i];
  std::byte* from =
      schedule_.value_own[i] != 0 ? own_base(thread) + at * static_cast<std::uint64_t>(tokens_) : base_ + at;
  return reinterpret_cast<float*>(from) + r * width(id);
}

QuantRows Executor::quant(backend::ValueId id, int thread) const noexcept {
  const std::size_t i = static_cast<std::size_t>(id);
  const std::uint64_t at = schedule_.quant_at[i];
  std::byte* from =
      schedule_.quant_own[i] != 0 ? own_base(thread) + at * static_cast<std::uint64_t>(tokens_) : base_ + at;
  return QuantRows::at(from, row_count(program_.graph().values[i].rows), width(id));
}

std::size_t Executor::sequence_of(std::int64_t row, std::size_t from) const noexcept {
  const auto end = [&] { return batch_.sequences[from].first + batch_.sequences[from].count; };
  while (from + 1 < batch_.sequences.size() && row >= end()) ++from;
  return from;
}

std::byte* Executor::scratch(int thread) const noexcept {
  return base_ + program_.plan().scratch_at + program_.plan().scratch_bytes * static_cast<std::uint64_t>(thread);
}

GroupsMade& Executor::made(int thread) const noexcept {
  static_assert(sizeof(GroupsMade) <= line_bytes);
  return *reinterpret_cast<GroupsMade*>(base_ + program_.plan().made_at +
                                        line_bytes * static_cast<std::size_t>(thread));
}

const float* Executor::cosine(std::int32_t table, std::int64_t token) const noexcept {
  const std::size_t i = static_cast<std::size_t>(table);
  const std::int64_t pairs = static_cast<std::int64_t>(program_.graph().rope_tables[i].inverse_frequency.size());
  return reinterpret_cast<const float*>(base_ + program_.plan().angles_at[i]) + token * pairs;
}

const float* Executor::sine(std::int32_t table, std::int64_t token) const noexcept {
  return cosine(table, program_.limits().tokens + token);
}

/// Each thread for a part of the rows.
void Executor::angles(int thread, int threads) noexcept {
  const core::Share share = core::share_of(tokens_, thread, threads);
  for (std::size_t t = 0; t < program_.graph().rope_tables.size(); ++t) {
    const backend::RopeTable& table = program_.graph().rope_tables[t];
    for (std::int64_t i = share.begin; i < share.end; ++i) {
      const std::int32_t index = static_cast<std::int32_t>(t);
      rope_angles(batch_.positions[static_cast<std::size_t>(i)], table.inverse_frequency, table.magnitude,
                  const_cast<float*>(cosine(index, i)), const_cast<float*>(sine(index, i)));
    }
  }
}

Columns Executor::columns_of(backend::ValueId in, backend::ValueId out, const PlacedWeight& weight,
                             int thread) const noexcept {
  Columns columns;
  if (weight.slab.kind == SlabKind::real) {
    columns.real = value(in, 0, thread);
    columns.real_width = weight.shape.columns;
  } else {
    columns.quant = quant(in, thread);
  }
  columns.out = value(out, 0, thread);
  columns.out_width = weight.shape.rows;
  return columns;
}

}  // namespace llminfer::cpu
