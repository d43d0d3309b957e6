// Phases of products, and what is done with these before they leave the caches.
#include <algorithm>
#include <atomic>

#include "device/cpu/executor.h"
#include "device/cpu/head_op.h"

namespace llminfer::cpu {

/// One op on columns [begin, begin + count) of one row.
struct ColumnOp {
  const Executor& run;
  std::int64_t row;
  std::int64_t begin;
  std::int64_t count;
  int thread;

  float* at(backend::ValueId id) const noexcept { return run.value(id, row, thread) + begin; }

  void operator()(const backend::GatedActivation& op) const noexcept {
    switch (op.kind) {
      case backend::Activation::silu:
        run.kernels_.silu(at(op.gate), at(op.up), at(op.out), count);
        return;
      case backend::Activation::gelu_tanh:
        run.kernels_.gelu_tanh(at(op.gate), at(op.up), at(op.out), count);
        return;
      case backend::Activation::swiglu_clip:
        run.kernels_.swiglu_clip(at(op.gate), at(op.up), at(op.out), count, op.alpha, op.limit);
        return;
    }
  }
  void operator()(const backend::Add& op) const noexcept { run.kernels_.add(at(op.a), at(op.b), at(op.out), count); }
  void operator()(const backend::Scale& op) const noexcept {
    run.kernels_.scale(at(op.in), at(op.out), count, op.factor);
  }
  void operator()(const backend::Softcap& op) const noexcept {
    run.kernels_.softcap(at(op.in), at(op.out), count, op.cap);
  }
  template <class Op>
  void operator()(const Op&) const noexcept {}  // not column by column: no schedule has it here
};

void Executor::matmul(const Phase& phase, int thread, int threads) noexcept {
  if (phase.cut == StepCut::columns) {
    column_list(phase, thread, threads);
  } else {
    panel_list(phase, thread, threads);
  }
}

/// Panels [begin, end) of one product.
void Executor::product(const backend::MatMul& op, std::int64_t begin, std::int64_t end, int thread) noexcept {
  const PlacedWeight& weight = program_.weight(op.weight);
  Columns columns = columns_of(op.in, op.out, weight, thread);
  columns.count = row_count(program_.graph().values[static_cast<std::size_t>(op.out)].rows);
  multiply(kernels_, weight, program_.arena(), 0, begin, end, columns, program_.values(op.bias), scratch(thread));
}

/// The panels of all products are one list, of which each thread takes one part.
void Executor::panel_list(const Phase& phase, int thread, int threads) noexcept {
  std::int64_t total = 0;
  const auto product_at = [&](std::int32_t i) -> const backend::MatMul& {
    return std::get<backend::MatMul>(program_.graph().ops[static_cast<std::size_t>(phase.first_op + i)]);
  };
  const auto panels_of = [&](std::int32_t i) { return program_.weight(product_at(i).weight).shape.panels; };
  for (std::int32_t i = 0; i < phase.products; ++i) total += panels_of(i);
  const core::Share share = core::share_of(total, thread, threads);
  std::int64_t before = 0;
  for (std::int32_t i = 0; i < phase.products; before += panels_of(i), ++i) {
    const std::int64_t first = std::max<std::int64_t>(share.begin - before, 0);
    const std::int64_t last = std::min(share.end - before, panels_of(i));
    if (first >= last) continue;
    product(product_at(i), first, last, thread);
    if (phase.cut == StepCut::heads) heads_of(phase, i, {first, last}, thread);
  }
}

/// After panels of a product: the steps of its heads that are complete now. Of a head that is shared, each thread
/// counts its panels; the last one does the steps.
void Executor::heads_of(const Phase& phase, std::int32_t product, core::Share panels, int thread) noexcept {
  const HeadCut& cut = schedule_.heads[static_cast<std::size_t>(phase.first_head + product)];
  if (cut.width == 0) return;
  auto* finished = reinterpret_cast<std::uint32_t*>(base_ + program_.plan().heads_at);
  const std::int64_t each = cut.width / panel_rows;
  for (std::int64_t head = panels.begin / each; head * each < panels.end; ++head) {
    const std::int64_t mine = std::min(panels.end, (head + 1) * each) - std::max(panels.begin, head * each);
    if (mine < each) {
      const std::atomic_ref<std::uint32_t> count(finished[cut.first + head]);
      if (count.fetch_add(static_cast<std::uint32_t>(mine), std::memory_order_acq_rel) + mine < each) continue;
      count.store(0, std::memory_order_relaxed);
    }
    head_steps(phase, product, static_cast<std::int32_t>(head), thread);
  }
}

void Executor::head_steps(const Phase& phase, std::int32_t product, std::int32_t head, int thread) noexcept {
  const auto& ops = program_.graph().ops;
  const auto& of = std::get<backend::MatMul>(ops[static_cast<std::size_t>(phase.first_op + product)]);
  HeadOp one{*this, 0, 0, head, thread};
  for (; one.row < row_count(phase.rows); ++one.row) {
    one.sequence = sequence_of(one.row, one.sequence);
    backend::ValueId newest = of.out;
    for (const RowStep& step : schedule_.steps_of(phase)) {
      const backend::Op& op = ops[static_cast<std::size_t>(step.op)];
      if (const auto* norm = std::get_if<backend::RmsNorm>(&op); norm != nullptr && norm->in == newest) {
        one.norm(*norm);
        newest = norm->out;
      } else if (const auto* rope = std::get_if<backend::Rope>(&op); rope != nullptr && rope->in == newest) {
        one.rope(*rope);
        newest = rope->out;
      } else if (const auto* write = std::get_if<backend::KvWrite>(&op); write != nullptr) {
        if (write->k == newest) one.store_key(*write);
        if (write->v == newest) one.store_value(*write);
      }
    }
  }
}

/// Each thread takes a part of the columns through all products and steps, a piece at a time, so that what one step
/// writes is in the cache for the next.
void Executor::column_list(const Phase& phase, int thread, int threads) noexcept {
  const auto product_at = [&](std::int32_t i) -> const backend::MatMul& {
    return std::get<backend::MatMul>(program_.graph().ops[static_cast<std::size_t>(phase.first_op + i)]);
  };
  constexpr std::int64_t most_values = 16384, least_columns = 512;
  std::int64_t grain = panel_rows;
  for (const RowStep& step : schedule_.steps_of(phase)) {
    if (step.quantize != backend::none) grain = 32;
  }
  const core::Share share = core::share_of(width(product_at(0).out), thread, threads, grain);
  const std::int64_t piece = std::max(least_columns, most_values / (phase.products * row_count(phase.rows)) / 32 * 32);
  for (std::int64_t begin = share.begin; begin < share.end; begin += piece) {
    const std::int64_t end = std::min(share.end, begin + piece);
    for (std::int32_t i = 0; i < phase.products; ++i) {
      product(product_at(i), begin / panel_rows, (end + panel_rows - 1) / panel_rows, thread);
    }
    column_steps(phase, begin, end, thread);
  }
}

void Executor::column_steps(const Phase& phase, std::int64_t begin, std::int64_t end, int thread) noexcept {
  for (std::int64_t r = 0; r < row_count(phase.rows); ++r) {
    for (const RowStep& step : schedule_.steps_of(phase)) {
      if (step.op != backend::none) {
        std::visit(ColumnOp{*this, r, begin, end - begin, thread},
                   program_.graph().ops[static_cast<std::size_t>(step.op)]);
      } else {
        quantize_columns(step.quantize, r, begin, end, thread);
      }
    }
  }
}

/// Columns [begin, end): multiples of 32.
void Executor::quantize_columns(backend::ValueId id, std::int64_t row, std::int64_t begin, std::int64_t end,
                                int thread) noexcept {
  const QuantRow to = quant(id, thread).row(row);
  const std::int64_t block = begin / 32;
  kernels_.quantize(value(id, row, thread) + begin, end - begin,
                    {to.q + begin, to.d + block, to.sum + block, to.half + 2 * block});
}

}  // namespace llminfer::cpu
