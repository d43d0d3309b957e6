// The ops that work row by row: what a phase of rows does to each of them.
#include <cstring>

#include "device/cpu/column_op.h"
#include "device/cpu/executor.h"
#include "device/cpu/head_op.h"
#include "device/cpu/route.h"
#include "quant/type_table.h"

namespace llminfer::cpu {

/// One op on one row.
struct RowOp {
  Executor& run;
  std::int64_t row;
  std::size_t sequence;  ///< of the row, where rows are tokens
  int thread;

  float* at(backend::ValueId id) const noexcept { return run.value(id, row, thread); }
  const float* weights(backend::WeightId id) const noexcept { return run.program_.values(id); }
  std::int64_t width(backend::ValueId id) const noexcept { return run.width(id); }

  void operator()(const backend::Embed& op) const noexcept {
    const PlacedWeight& weight = run.program_.weight(op.weight);
    const std::int64_t token = run.batch_.tokens[static_cast<std::size_t>(row)];
    const std::byte* panel = weight.panel(run.program_.arena(), 0, token / panel_rows);
    std::byte* bytes = run.scratch(thread);
    unpack_row_bytes(weight.shape, panel, static_cast<int>(token % panel_rows), bytes);
    quant::find(weight.shape.type)->unpack_row(bytes, at(op.out), static_cast<std::size_t>(width(op.out)));
    if (op.scale != 1.0F) run.kernels_.scale(at(op.out), at(op.out), width(op.out), op.scale);
  }

  void operator()(const backend::RmsNorm& op) const noexcept {
    for (std::int64_t i = 0; i < width(op.in); i += op.group) {
      run.kernels_.rms_norm(at(op.in) + i, weights(op.weight), at(op.out) + i, op.group, op.eps);
    }
  }

  void operator()(const backend::LayerNorm& op) const noexcept {
    run.kernels_.layer_norm(at(op.in), weights(op.weight), weights(op.bias), at(op.out), width(op.in), op.eps);
  }

  void operator()(const backend::Rope& op) const noexcept {
    for (std::int32_t h = 0; h < op.heads; ++h) HeadOp{run, row, sequence, h, thread}.rope(op);
  }

  void operator()(const backend::KvWrite& op) const noexcept {
    const backend::StateGroup& state = run.program_.graph().states[static_cast<std::size_t>(op.slot.group)];
    for (std::int32_t h = 0; h < state.heads; ++h) {
      const HeadOp one{run, row, sequence, h, thread};
      one.store_key(op);
      if (op.v != backend::none) one.store_value(op);
    }
  }

  /// The whole row of an op that works column by column.
  template <class Op>
  void columns(const Op& op) const noexcept {
    ColumnOp{run, row, 0, width(op.out), thread}(op);
  }
  void operator()(const backend::GatedActivation& op) const noexcept { columns(op); }
  void operator()(const backend::Add& op) const noexcept { columns(op); }
  void operator()(const backend::Scale& op) const noexcept { columns(op); }
  void operator()(const backend::Softcap& op) const noexcept { columns(op); }
  void operator()(const backend::Slice& op) const noexcept { columns(op); }
  void operator()(const backend::MoeCombine& op) const noexcept { columns(op); }
  void operator()(const backend::GatherRows& op) const noexcept {
    const std::int64_t from = run.batch_.output_rows[static_cast<std::size_t>(row)];
    std::memcpy(at(op.out), run.value(op.in, from, thread), sizeof(float) * static_cast<std::size_t>(width(op.out)));
  }
  void operator()(const backend::MoeRoute& op) const noexcept {
    route_row(run.kernels_, op, at(op.in), weights(op.selection_bias), at(op.out),
              reinterpret_cast<float*>(run.scratch(thread)));
  }

  // Not row by row: phases of their own.
  void operator()(const backend::MatMul&) const noexcept {}
  void operator()(const backend::MoeMatMul&) const noexcept {}
  void operator()(const backend::PagedAttention&) const noexcept {}
};

void Executor::rows(const Phase& phase, int thread, int threads) noexcept {
  const std::int64_t count = row_count(phase.rows);
  if (phase.own) return some_rows(phase, {0, count}, thread);
  constexpr std::int64_t least = 4;  // more than ten thousand values on their way through some ops
  Claims list = claims(phase, thread, threads, count, {1, least});
  list.each([&](const core::Share& part) { some_rows(phase, part, thread); });
}

void Executor::some_rows(const Phase& phase, const core::Share& part, int thread) noexcept {
  std::size_t sequence = 0;
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    if (phase.rows == backend::Rows::tokens) sequence = sequence_of(r, sequence);
    for (const RowStep& step : schedule_.steps_of(phase)) {
      if (step.op != backend::none) {
        std::visit(RowOp{*this, r, sequence, thread}, program_.graph().ops[static_cast<std::size_t>(step.op)]);
      } else {
        kernels_.quantize(value(step.quantize, r, thread), width(step.quantize), quant(step.quantize, thread).row(r));
      }
    }
  }
}

}  // namespace llminfer::cpu
