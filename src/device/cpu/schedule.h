// The order of work of a step: phases, each run by all threads, with a barrier behind it; and where activations lie.
//
// Ops that work row by row (norms, RoPE, KV writes, activations, ...) join into one phase as long as they follow each
// other: a thread takes the same rows through all of them, no barrier between. Matmuls that follow each other and do
// not read each other share one phase: their panels are one list. A value that a quantized matmul reads is quantized in
// the phase that writes it where that works row by row, else in a phase of its own. Which thread does what of a phase
// is found while it runs (Claims).
//
// A program has two schedules. That for many rows is as above. That for few rows (decoding) has fewer barriers: five a
// layer of a dense decoder, behind q, k and v, attention, its output, gate and up, and down; one more with experts,
// behind the logits that choose them, for each of these phases reads whole rows of what all threads wrote before:
//   * What follows products column by column (activation, residual add, sum over experts, quantization) or head by head
//     (QK norm, RoPE, KV write) is done in their phase, by the thread that made the products, or, where a head's
//     products are shared out among threads, by the one that is last. One matrix in place of several is taken in parts.
//   * A phase of rows is done by every thread for itself, all rows, into memory of its own, so that nobody waits: its
//     values are `own`.
// Both run the same kernels on the same values: the bits are equal.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <llminfer/backend/backend.hpp>

#include "core/vector.h"

namespace llminfer::cpu {

enum class PhaseKind : std::uint8_t { rows, matmul, moe_matmul, attention };

/// How the steps behind the products of a matmul phase are cut: at any column (of 32, if one quantizes), or into heads.
enum class StepCut : std::uint8_t { none, columns, heads };

/// An op, or (op = none) the quantization of a value.
struct RowStep {
  std::int32_t op = backend::none;
  backend::ValueId quantize = backend::none;
  std::int32_t ranges = 1;  ///< cut at columns: times that its values have the phase's columns, one behind the other
};

struct Phase {
  PhaseKind kind = PhaseKind::rows;
  backend::Rows rows = backend::Rows::tokens;
  StepCut cut = StepCut::none;
  bool logits = false;  ///< matmul only: its last value are the logits, and no two products are shared out in turn
  bool own = false;     ///< rows only: every thread does it for itself
  std::int32_t first_op = 0;  ///< covers ops [first_op, first_op + op_count)
  std::int32_t op_count = 0;
  std::int32_t products = 0;    ///< matmuls: of these, ops [first_op, first_op + products) are products
  std::int32_t first_step = 0;  ///< steps [first_step, first_step + step_count)
  std::int32_t step_count = 0;
  std::int32_t first_part = 0;  ///< matmul only: Schedule::parts [first_part, first_part + part_count)
  std::int32_t part_count = 0;
  std::int32_t columns = 0;  ///< matmuls not cut into heads: of each part, or of each expert's product; 0: they differ
  std::int32_t used = 1;     ///< experts chosen for a row
  std::int32_t groups = 1;   ///< of heads
};

/// What threads share out of one product: all of it, or one of several matrices in one. Where its steps go head by head
/// parts are shared out in groups of heads, keys first and values last in each, so that writing to the cache falls to
/// all.
struct ProductPart {
  std::int32_t product = 0;
  std::int32_t first_panel = 0;  ///< of the product
  std::int32_t panels = 0;       ///< cut into heads, as what follows: of one group
  std::int32_t width = 0;        ///< values of a head; 0: no steps
  std::int32_t unit = 0;         ///< values of heads, often one, that are whole panels together
  std::int32_t first_unit = 0;   ///< its number among all of the phase
};

constexpr std::uint64_t no_place = ~std::uint64_t{0};

struct Schedule {
  core::Vector<Phase> phases{};
  core::Vector<RowStep> steps{};      ///< of all phases
  core::Vector<ProductPart> parts{};  ///< of all phases
  core::Vector<std::uint64_t>
      value_at{};  ///< byte offset of each value in the activations; own: for each row of a step
  core::Vector<std::uint64_t> quant_at{};  ///< of its quantized form, or no_place
  core::Vector<std::uint8_t> value_own{};  ///< whether each value lies in a thread's own memory
  core::Vector<std::uint8_t> quant_own{};
  std::uint64_t bytes = 0;          ///< of the activations, own ones aside
  std::uint64_t own_row_bytes = 0;  ///< of the own ones, for each row of a step
  std::int32_t most_units = 0;      ///< of a phase that is cut into heads
  std::size_t hidden_phases = 0;    ///< phases after which the hidden state is there

  std::span<const RowStep> steps_of(const Phase& phase) const noexcept {
    return {steps.data() + phase.first_step, static_cast<std::size_t>(phase.step_count)};
  }
  std::span<const ProductPart> parts_of(const Phase& phase) const noexcept {
    return {parts.data() + phase.first_part, static_cast<std::size_t>(phase.part_count)};
  }
  /// Whether the last phase has Phase::logits.
  bool logits_in_columns() const noexcept;
  /// Whether all threads wait for each other behind the phase.
  static bool has_barrier(const Phase& phase) noexcept { return !phase.own; }
};

/// Bytes of `rows` quantized rows of `width` values: planes q, d, sum, half (see QuantRow).
std::uint64_t quant_bytes(std::int64_t rows, std::int64_t width) noexcept;

enum class ScheduleKind : std::uint8_t { many_rows, few_rows };

/// The tables come from `memory`. The graph must have passed graph::check. Throws unsupported_type, out_of_memory.
Schedule make_schedule(const backend::Graph& graph, const backend::Limits& limits, ScheduleKind kind,
                       const std::shared_ptr<core::Memory>& memory);

}  // namespace llminfer::cpu
