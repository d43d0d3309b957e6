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

const PlacedWeight& Executor::weight_of(const backend::MatMul& op) const noexcept { return program_.weight(op.weight); }

std::int64_t Executor::rows_of(const backend::MatMul& op) const noexcept {
  return row_count(program_.graph().values[static_cast<std::size_t>(op.out)].rows);
}

/// Some panels of one product. `to`: where their results go, null: to where all of the product's stand.
void Executor::product(const backend::MatMul& op, const PanelRange& panels, int thread, const LogitRows* to) noexcept {
  Columns columns = columns_of(op.in, op.out, weight_of(op), thread);
  columns.count = rows_of(op);
  if (to != nullptr) {
    columns.out = to->at;
    columns.out_width = to->stride;
    columns.out_panel = panels.begin;
  }
  product(op, panels, columns, thread);
}

void Executor::product(const backend::MatMul& op, const PanelRange& panels, const Columns& columns,
                       int thread) noexcept {
  multiply(kernels_, weight_of(op), program_.arena(), 0, panels, columns, program_.values(op.bias), scratch(thread),
           &made(thread));
}

/// Who takes what of a phase, of which there are `total` positions.
Claims Executor::claims(const Phase& phase, int thread, int threads, std::int64_t total,
                        ClaimSize size) const noexcept {
  const auto number = static_cast<std::uint32_t>(&phase - schedule_.phases.data()) + 1;
  return {base_ + program_.plan().cursors_at, number, thread, threads, total, size};
}

/// How many positions, each with so many bytes of weights that meet so many rows, are worth being taken by a thread:
/// some microseconds of work.
std::int64_t Executor::least_claim(std::int64_t bytes, std::int64_t rows) noexcept {
  constexpr std::int64_t least_bytes = 256 * 1024;
  const std::int64_t work = std::max<std::int64_t>(1, bytes) * std::max<std::int64_t>(1, rows / 8);
  return (least_bytes + work - 1) / work;
}

/// Panels at a time.
ClaimSize Executor::panel_claims(std::int64_t panel_bytes, std::int64_t rows) noexcept {
  const std::int64_t at_once = rows == 1 ? gemv_panels : 1;
  return {1, (least_claim(panel_bytes, rows) + at_once - 1) / at_once * at_once};
}

/// The panels of all products are one list, each product's once for all rows that stay in the cache together.
void Executor::panel_list(const Phase& phase, int thread, int threads) noexcept {
  const auto op_at = [&](std::int64_t i) -> const backend::MatMul& {
    return product_at(phase, static_cast<std::int32_t>(i));
  };
  const auto at_once = [&](const backend::MatMul& op) { return columns_at_once(kernels_, weight_of(op), rows_of(op)); };
  const auto length_of = [&](std::int64_t i) {
    const std::int64_t each = at_once(op_at(i));
    return weight_of(op_at(i)).shape.panels * ((rows_of(op_at(i)) + each - 1) / each);
  };
  const backend::MatMul& front = op_at(0);
  const ClaimSize size = panel_claims(weight_of(front).shape.panel_bytes, std::min(rows_of(front), at_once(front)));
  const std::int64_t total = length_of_all(phase.products, length_of);
  Claims list = claims(phase, thread, threads, total, size.for_all(total, threads));
  list.each([&](const core::Share& part) {
    each_list(phase.products, length_of, part, [&](std::int64_t i, std::int64_t first, std::int64_t last) {
      const backend::MatMul& op = op_at(i);
      const std::int64_t panels = weight_of(op).shape.panels, each = at_once(op);
      Columns columns = columns_of(op.in, op.out, weight_of(op), thread);
      for (std::int64_t at = first; at < last;) {
        const std::int64_t begin = at % panels, end = std::min(panels, begin + last - at);
        columns.first = at / panels * each;
        columns.count = std::min(each, rows_of(op) - columns.first);
        at += end - begin;
        product(op, {begin, end, at == last ? std::min(panels - end, list.behind()) : 0}, columns, thread);
      }
    });
  });
}

/// As panel_list, the list in groups of heads.
void Executor::head_list(const Phase& phase, int thread, int threads) noexcept {
  const HeadLists lists{schedule_.parts_of(phase), phase.groups};
  const auto panels_of = [&](std::int64_t i) { return std::int64_t{lists.part(i).panels}; };
  const backend::MatMul& front = product_at(phase, lists.part(0).product);
  const ClaimSize size = panel_claims(weight_of(front).shape.panel_bytes, rows_of(front));
  const std::int64_t total = length_of_all(lists.count(), panels_of);
  Claims list = claims(phase, thread, threads, total, size.for_all(total, threads));
  list.each([&](const core::Share& share) {
    each_list(lists.count(), panels_of, share, [&](std::int64_t i, std::int64_t first, std::int64_t last) {
      const ProductPart& part = lists.part(i);
      const std::int64_t at = lists.first_panel(i), behind = std::min(part.panels - last, list.behind());
      product(product_at(phase, part.product), {part.first_panel + at + first, part.first_panel + at + last, behind},
              thread);
      finish_heads(phase, part, {at + first, at + last}, thread);
    });
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

/// Where the columns of a phase that is cut there can be cut: at multiples of this.
std::int64_t Executor::column_grain(const Phase& phase) const noexcept {
  if (phase.logits && tops_) return sum_columns;
  for (const RowStep& step : schedule_.steps_of(phase)) {
    if (step.quantize != backend::none) return 32;
  }
  return panel_rows;
}

/// The thread's share of them.
core::Share Executor::column_share(const Phase& phase, int thread, int threads) const noexcept {
  return core::share_of(phase.columns, thread, threads, column_grain(phase));
}

/// Columns of a piece where rows are many: 512 rows of two products are a MB.
constexpr std::int64_t columns_of_many_rows = 256;

/// Columns of a piece of a phase that is cut there.
std::int64_t Executor::piece_of(const Phase& phase) const noexcept {
  constexpr std::int64_t most_values = 16384;
  const std::int64_t least_columns = few_ ? 512 : columns_of_many_rows;
  return std::max(least_columns, most_values / (phase.part_count * row_count(phase.rows)) / sum_columns * sum_columns);
}

/// Columns at a time, at most piece_of.
ClaimSize Executor::column_claims(const Phase& phase) const noexcept {
  const std::int64_t grain = column_grain(phase);
  std::int64_t bytes = 0;
  for (const ProductPart& part : schedule_.parts_of(phase)) {
    bytes += weight_of(product_at(phase, part.product)).shape.panel_bytes;
  }
  const std::int64_t worth = least_claim(bytes, row_count(phase.rows)) * panel_rows;
  const std::int64_t most = piece_of(phase) / grain * grain,
                     least = std::min(most, (worth + grain - 1) / grain * grain);
  return {grain, least, most / least * least};
}

/// A thread takes columns through all products and steps, so that what one step writes is in the cache for the next.
void Executor::column_list(const Phase& phase, int thread, int threads) noexcept {
  const ClaimSize size = column_claims(phase).for_all(phase.columns, threads);
  Claims list = claims(phase, thread, threads, phase.columns, size);
  list.each([&](const core::Share& columns) {
    for (const ProductPart& part : schedule_.parts_of(phase)) {
      product(product_at(phase, part.product), panels_of_columns(part, columns), thread);
    }
    column_steps(phase, columns.begin, columns.end, thread);
  });
}

PanelRange Executor::panels_of_columns(const ProductPart& part, const core::Share& columns) noexcept {
  return {part.first_panel + columns.begin / panel_rows,
          part.first_panel + (columns.end + panel_rows - 1) / panel_rows};
}

/// As column_list, where of the logits only the best are wanted: a thread finds them in each piece. Where there are no
/// steps its pieces stand in one place, the beginning of what the thread's share takes of all rows, so that they stay
/// in its cache and never become memory's matter. Rows are a line apart from multiples of 4 KiB: side by side in the
/// cache. A thread whose share is no whole grain has no place for more, and helps nobody.
void Executor::logit_list(const Phase& phase, int thread, int threads) noexcept {
  forget_bests(thread);
  const core::Share share = column_share(phase, thread, threads);
  ClaimSize size = column_claims(phase);
  if (share.begin >= share.end) return;
  size.own_only = share.end - share.begin < size.grain;
  if (!size.own_only) size.most = std::min(size.most, (share.end - share.begin) / size.grain * size.grain);
  size.least = std::min(size.least, size.most);
  const bool in_place = !schedule_.steps_of(phase).empty() || phase.part_count != 1;
  float* const logits = value(program_.graph().logits, 0, thread);
  LogitRows at{logits + share.begin * row_count(phase.rows), std::min(share.end - share.begin, size.most + panel_rows)};
  Claims list = claims(phase, thread, threads, phase.columns, size);
  list.each([&](const core::Share& columns) {
    if (in_place) at = {logits + columns.begin, width(program_.graph().logits)};
    for (const ProductPart& part : schedule_.parts_of(phase)) {
      PanelRange panels = panels_of_columns(part, columns);
      panels.behind = phase.part_count == 1 ? list.behind() / panel_rows : 0;
      product(product_at(phase, part.product), panels, thread, in_place ? nullptr : &at);
    }
    column_steps(phase, columns.begin, columns.end, thread);
    if (bests_) find_bests(columns, at, thread);
    if (tops_) find_tops(columns, at, thread);
  });
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

const backend::MoeMatMul& Executor::expert_product_at(const Phase& phase, std::int64_t i) const noexcept {
  return std::get<backend::MoeMatMul>(program_.graph().ops[static_cast<std::size_t>(phase.first_op + i)]);
}

/// How much of what is shared out among threads one takes at a time where experts are sorted and columns brought
/// together for each part: with many rows all of its share.
std::int64_t Executor::least_of_experts(std::int64_t total, std::int64_t grain, int threads) const noexcept {
  const std::int64_t parts = few_ ? 4 * threads : threads;
  return (total / grain / parts + 1) * grain;
}

/// Parts of the columns of all experts' products, taken through the steps, or of the list of their panels.
void Executor::expert_list(const Phase& phase, int thread, int threads) noexcept {
  if (phase.cut == StepCut::columns) {
    const std::int64_t grain = column_grain(phase), least = least_of_experts(phase.columns, grain, threads);
    Claims list = claims(phase, thread, threads, phase.columns, {grain, least});
    list.each([&](const core::Share& columns) {
      for (std::int32_t i = 0; i < phase.products; ++i) {
        expert_product(expert_product_at(phase, i), panels_of_columns({}, columns), thread);
      }
      column_steps(phase, columns.begin, columns.end, thread);
    });
    return;
  }
  const auto panels_of = [&](std::int64_t i) {
    return program_.weight(expert_product_at(phase, i).weight).shape.panels;
  };
  const std::int64_t total = length_of_all(phase.products, panels_of);
  Claims list = claims(phase, thread, threads, total, {1, least_of_experts(total, 1, threads)});
  list.each([&](const core::Share& part) {
    each_list(phase.products, panels_of, part, [&](std::int64_t i, std::int64_t first, std::int64_t last) {
      expert_product(expert_product_at(phase, i), {first, last}, thread);
    });
  });
}

/// Some panels of each expert: the rows that chose it are the columns.
void Executor::expert_product(const backend::MoeMatMul& op, const PanelRange& panels, int thread) noexcept {
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
    multiply(kernels_, weight, program_.arena(), e, panels, columns, bias, scratch(thread), &made(thread));
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
