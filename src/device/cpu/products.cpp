// Phases of products, and what is done with these before they leave the caches.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "device/common/reduce_outputs.h"
#include "device/cpu/column_op.h"
#include "device/cpu/executor.h"
#include "device/cpu/head_op.h"
#include "device/cpu/list_shares.h"
#include "device/cpu/route.h"

namespace llminfer::cpu {

void Executor::matmul(const Phase& phase, int thread, int threads) noexcept {
  if (phase.logits && (bests_ || tops_)) return logit_list(phase, thread, threads);
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
  return std::get<backend::MatMul>(
      program_.graph().ops[static_cast<std::size_t>(phase.first_op) + static_cast<std::size_t>(index)]);
}

/// Panels [begin, end) of one product. `to`: where their results go, null: to where all of the product's stand.
void Executor::product(const backend::MatMul& op, std::int64_t begin, std::int64_t end, int thread,
                       const LogitRows* to) noexcept {
  const PlacedWeight& weight = program_.weight(op.weight);
  Columns columns = columns_of(op.in, op.out, weight, thread);
  columns.count = row_count(program_.graph().values[static_cast<std::size_t>(op.out)].rows);
  if (to != nullptr) {
    columns.out = to->at;
    columns.out_width = to->stride;
    columns.out_panel = begin;
  }
  multiply(kernels_, weight, program_.arena(), 0, begin, end, columns, program_.values(op.bias), scratch(thread),
           &made(thread));
}

/// The panels of all products are one list, of which each thread takes one part.
void Executor::panel_list(const Phase& phase, int thread, int threads) noexcept {
  const auto panels_of = [&](std::int64_t i) { return panels_of_product(phase, i); };
  each_share(phase.products, panels_of, thread, threads, [&](std::int64_t i, std::int64_t first, std::int64_t last) {
    product(product_at(phase, static_cast<std::int32_t>(i)), first, last, thread);
  });
}

std::int64_t Executor::panels_of_product(const Phase& phase, std::int64_t i) const noexcept {
  return program_.weight(product_at(phase, static_cast<std::int32_t>(i)).weight).shape.panels;
}

/// As panel_list, the list in groups of heads.
void Executor::head_list(const Phase& phase, int thread, int threads) noexcept {
  const HeadLists lists{schedule_.parts_of(phase), phase.groups};
  const auto panels_of = [&](std::int64_t i) { return std::int64_t{lists.part(i).panels}; };
  each_share(lists.count(), panels_of, thread, threads, [&](std::int64_t i, std::int64_t first, std::int64_t last) {
    const ProductPart& part = lists.part(i);
    const std::int64_t at = lists.first_panel(i);
    product(product_at(phase, part.product), part.first_panel + at + first, part.first_panel + at + last, thread);
    finish_heads(phase, part, {at + first, at + last}, thread);
  });
}

/// After panels of a part: the steps of its heads that are complete now. Of heads that are shared, each thread counts
/// its panels; the last one does the steps.
void Executor::finish_heads(const Phase& phase, const ProductPart& part, core::Share panels, int thread) noexcept {
  if (part.width == 0) return;
  auto* finished = reinterpret_cast<std::uint32_t*>(base_ + program_.plan().heads_at);
  const std::int64_t each = (part.unit + panel_rows - 1) / panel_rows;
  for (std::int64_t unit = panels.begin / each; unit * each < panels.end; ++unit) {
    const std::int64_t mine = std::min(panels.end, (unit + 1) * each) - std::max(panels.begin, unit * each);
    if (mine < each) {
      const std::atomic_ref<std::uint32_t> count(finished[part.first_unit + unit]);
      if (count.fetch_add(static_cast<std::uint32_t>(mine), std::memory_order_acq_rel) + mine < each) continue;
      count.store(0, std::memory_order_relaxed);
    }
    const auto heads = static_cast<std::int32_t>(part.unit / part.width),
               first = static_cast<std::int32_t>(unit) * heads;
    for (std::int32_t head = first; head < first + heads; ++head) head_steps(phase, part, head, thread);
  }
}

void Executor::head_steps(const Phase& phase, const ProductPart& part, std::int32_t head, int thread) noexcept {
  const auto& ops = program_.graph().ops;
  HeadOp one{*this, 0, 0, head, thread};
  for (; one.row < row_count(phase.rows); ++one.row) {
    one.sequence = sequence_of(one.row, one.sequence);
    backend::ValueId newest = product_at(phase, part.product).out;
    for (const RowStep& step : schedule_.steps_of(phase)) {
      const backend::Op& op = ops[static_cast<std::size_t>(step.op)];
      if (const auto* slice = std::get_if<backend::Slice>(&op); slice != nullptr) {
        if (slice->in != newest || slice->offset != part.first_panel * panel_rows) continue;
        one.slice(*slice, part.width);
        newest = slice->out;
      } else if (const auto* norm = std::get_if<backend::RmsNorm>(&op); norm != nullptr && norm->in == newest) {
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

/// The thread's part of the columns of a phase that is cut there.
core::Share Executor::column_share(const Phase& phase, int thread, int threads) const noexcept {
  std::int64_t grain = panel_rows;
  for (const RowStep& step : schedule_.steps_of(phase)) {
    if (step.quantize != backend::none) grain = 32;
  }
  if (phase.logits && tops_) grain = sum_columns;
  return core::share_of(phase.columns, thread, threads, grain);
}

/// Columns of a piece where rows are many: 512 rows of two products are a MB.
constexpr std::int64_t columns_of_many_rows = 256;

/// Columns of a piece of a phase that is cut there.
std::int64_t Executor::piece_of(const Phase& phase) const noexcept {
  constexpr std::int64_t most_values = 16384;
  const std::int64_t least_columns = few_ ? 512 : columns_of_many_rows;
  return std::max(least_columns, most_values / (phase.part_count * row_count(phase.rows)) / sum_columns * sum_columns);
}

/// Each thread takes a part of the columns through all products and steps, a piece at a time, so that what one step
/// writes is in the cache for the next.
void Executor::column_list(const Phase& phase, int thread, int threads) noexcept {
  const core::Share share = column_share(phase, thread, threads);
  const std::int64_t piece = piece_of(phase);
  for (std::int64_t begin = share.begin; begin < share.end; begin += piece) {
    const std::int64_t end = std::min(share.end, begin + piece);
    for (const ProductPart& part : schedule_.parts_of(phase)) {
      product(product_at(phase, part.product), part.first_panel + begin / panel_rows,
              part.first_panel + (end + panel_rows - 1) / panel_rows, thread);
    }
    column_steps(phase, begin, end, thread);
  }
}

/// As column_list, where of the logits only the best are wanted: a thread finds them in each piece. Where there are no
/// steps its pieces stand in one place, the beginning of what the thread's columns take of all rows, so that they stay
/// in its cache and never become memory's matter. Rows are a line apart from multiples of 4 KiB: side by side in the
/// cache.
void Executor::logit_list(const Phase& phase, int thread, int threads) noexcept {
  const core::Share share = column_share(phase, thread, threads);
  const std::int64_t piece = piece_of(phase), rows = row_count(phase.rows);
  const bool in_place = !schedule_.steps_of(phase).empty() || phase.part_count != 1;
  float* const logits = value(program_.graph().logits, 0, thread);
  LogitRows at{logits + share.begin * rows, std::min(share.end - share.begin, piece + panel_rows)};
  if (bests_) std::fill_n(bests_of(thread), outputs_count_, BestLogit{});
  for (std::int64_t begin = share.begin; begin < share.end; begin += piece) {
    const core::Share columns{begin, std::min(share.end, begin + piece)};
    if (in_place) at = {logits + begin, width(program_.graph().logits)};
    for (const ProductPart& part : schedule_.parts_of(phase)) {
      const backend::MatMul& op = product_at(phase, part.product);
      const std::int64_t first = part.first_panel + begin / panel_rows;
      const std::int64_t last = part.first_panel + (columns.end + panel_rows - 1) / panel_rows;
      product(op, first, last, thread, in_place ? nullptr : &at);
    }
    column_steps(phase, columns.begin, columns.end, thread);
    if (bests_) find_bests(columns, at, thread);
    if (tops_) find_tops(columns, at, begin - share.begin, thread);
  }
}

void Executor::column_steps(const Phase& phase, std::int64_t begin, std::int64_t end, int thread) noexcept {
  for (std::int64_t r = 0; r < row_count(phase.rows); ++r) {
    for (const RowStep& step : schedule_.steps_of(phase)) {
      for (std::int64_t range = 0; range < step.ranges; ++range) {
        const std::int64_t at = range * phase.columns + begin;
        if (step.op != backend::none) {
          std::visit(ColumnOp{*this, r, at, end - begin, thread},
                     program_.graph().ops[static_cast<std::size_t>(step.op)]);
        } else {
          quantize_columns(step.quantize, r, at, at + (end - begin), thread);
        }
      }
    }
  }
}

/// Each thread takes a part of the columns of all experts' products, and through the steps.
void Executor::expert_list(const Phase& phase, int thread, int threads) noexcept {
  const bool steps = phase.cut == StepCut::columns;
  const core::Share columns = column_share(phase, thread, threads);
  if (steps && columns.begin >= columns.end) return;  // else the last panel of a width that is no multiple of 16
  for (std::int32_t i = phase.first_op; i < phase.first_op + phase.products; ++i) {
    const auto& op = std::get<backend::MoeMatMul>(program_.graph().ops[static_cast<std::size_t>(i)]);
    const core::Share panels =
        steps ? core::Share{columns.begin / panel_rows, (columns.end + panel_rows - 1) / panel_rows}
              : core::share_of(program_.weight(op.weight).shape.panels, thread, threads);
    expert_product(op, panels.begin, panels.end, thread);
  }
  if (steps) column_steps(phase, columns.begin, columns.end, thread);
}

/// Panels [begin, end) of each expert: the rows that chose it are the columns.
void Executor::expert_product(const backend::MoeMatMul& op, std::int64_t begin, std::int64_t end, int thread) noexcept {
  const PlacedWeight& weight = program_.weight(op.weight);
  const std::int64_t rows = row_count(program_.graph().values[static_cast<std::size_t>(op.out)].rows),
                     pairs = rows * op.used;
  ExpertLists lists;
  lists.pairs = reinterpret_cast<std::int32_t*>(scratch(thread) + program_.plan().lists_at);
  lists.rows = lists.pairs + pairs;
  lists.starts = lists.rows + pairs;
  sort_by_expert(value(op.route, 0, thread), rows, op.used, weight.experts, lists);

  const bool shared = width(op.in) == weight.shape.columns;  // the same input for every chosen expert
  Columns columns = columns_of(op.in, op.out, weight, thread);
  if (!shared && weight.slab.kind != SlabKind::real) columns.quant.width = weight.shape.columns;
  for (std::int64_t e = 0; e < weight.experts; ++e) {
    const std::int32_t first = lists.starts[e];
    columns.count = lists.starts[e + 1] - first;
    if (columns.count == 0) continue;
    columns.in_rows = (shared ? lists.rows : lists.pairs) + first;
    columns.out_rows = lists.pairs + first;
    const float* bias = op.bias != backend::none ? program_.values(op.bias) + e * weight.shape.rows : nullptr;
    multiply(kernels_, weight, program_.arena(), e, begin, end, columns, bias, scratch(thread), &made(thread));
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
