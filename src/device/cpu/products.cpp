// Phases of products, and what is done with these before they leave the caches.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "device/common/reduce_outputs.h"
#include "device/cpu/column_op.h"
#include "device/cpu/executor.h"
#include "device/cpu/head_op.h"

namespace llminfer::cpu {

void Executor::matmul(const Phase& phase, int thread, int threads) noexcept {
  if (phase.logits && (bests_ || tops_)) return column_list(phase, thread, threads);
  switch (phase.cut) {
    case StepCut::none:
      panel_list(phase, thread, threads);
      return;
    case StepCut::columns:
      column_list(phase, thread, threads);
      return;
    case StepCut::heads:
      head_list(phase, thread, threads);
      return;
  }
}

const backend::MatMul& Executor::product_at(const Phase& phase, std::int32_t index) const noexcept {
  return std::get<backend::MatMul>(program_.graph().ops[static_cast<std::size_t>(phase.first_op + index)]);
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
  const auto panels_of = [&](std::int32_t i) { return program_.weight(product_at(phase, i).weight).shape.panels; };
  for (std::int32_t i = 0; i < phase.products; ++i) total += panels_of(i);
  const core::Share share = core::share_of(total, thread, threads);
  std::int64_t before = 0;
  for (std::int32_t i = 0; i < phase.products; before += panels_of(i), ++i) {
    const std::int64_t first = std::max<std::int64_t>(share.begin - before, 0);
    const std::int64_t last = std::min(share.end - before, panels_of(i));
    if (first < last) product(product_at(phase, i), first, last, thread);
  }
}

/// As panel_list, the list in groups of heads.
void Executor::head_list(const Phase& phase, int thread, int threads) noexcept {
  const std::span<const HeadCut> cuts = schedule_.heads_of(phase);
  std::int64_t total = 0;
  for (const HeadCut& cut : cuts) total += std::int64_t{cut.panels} * phase.groups;
  const core::Share share = core::share_of(total, thread, threads);
  std::int64_t before = 0;
  for (std::int32_t group = 0; group < phase.groups; ++group) {
    for (const HeadCut& cut : cuts) {
      const std::int64_t first = std::max<std::int64_t>(share.begin - before, 0);
      const std::int64_t last = std::min<std::int64_t>(share.end - before, cut.panels);
      before += cut.panels;
      if (first >= last) continue;
      const std::int64_t at = std::int64_t{group} * cut.panels;
      product(product_at(phase, cut.product), at + first, at + last, thread);
      finish_heads(phase, cut, {at + first, at + last}, thread);
    }
  }
}

/// After panels of a product: the steps of its heads that are complete now. Of a head that is shared, each thread
/// counts its panels; the last one does the steps.
void Executor::finish_heads(const Phase& phase, const HeadCut& cut, core::Share panels, int thread) noexcept {
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
    head_steps(phase, cut.product, static_cast<std::int32_t>(head), thread);
  }
}

void Executor::head_steps(const Phase& phase, std::int32_t product, std::int32_t head, int thread) noexcept {
  const auto& ops = program_.graph().ops;
  HeadOp one{*this, 0, 0, head, thread};
  for (; one.row < row_count(phase.rows); ++one.row) {
    one.sequence = sequence_of(one.row, one.sequence);
    backend::ValueId newest = product_at(phase, product).out;
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
  constexpr std::int64_t most_values = 16384, least_columns = 512;
  std::int64_t grain = panel_rows;
  for (const RowStep& step : schedule_.steps_of(phase)) {
    if (step.quantize != backend::none) grain = 32;
  }
  const bool bests = phase.logits && bests_, tops = phase.logits && tops_;
  if (bests) std::fill_n(bests_of(thread), outputs_count_, BestLogit{});
  if (tops) grain = sum_columns;
  const core::Share share = core::share_of(width(product_at(phase, 0).out), thread, threads, grain);
  const std::int64_t piece =
      std::max(least_columns, most_values / (phase.products * row_count(phase.rows)) / sum_columns * sum_columns);
  for (std::int64_t begin = share.begin; begin < share.end; begin += piece) {
    const std::int64_t end = std::min(share.end, begin + piece);
    for (std::int32_t i = 0; i < phase.products; ++i) {
      product(product_at(phase, i), begin / panel_rows, (end + panel_rows - 1) / panel_rows, thread);
    }
    column_steps(phase, begin, end, thread);
    if (bests) find_bests(begin, end, thread);
    if (tops) find_tops(begin, end, begin - share.begin, thread);
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
                                int thread) const noexcept {
  const QuantRow to = quant(id, thread).row(row);
  const std::int64_t block = begin / 32;
  kernels_.quantize(value(id, row, thread) + begin, end - begin,
                    {to.q + begin, to.d + block, to.sum + block, to.half + 2 * block});
}

}  // namespace llminfer::cpu
