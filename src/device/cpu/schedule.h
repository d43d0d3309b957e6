// The order of work of a step: phases, each run by all threads, with a barrier behind it; and where activations lie.
//
// Ops that work row by row (norms, RoPE, KV writes, activations, ...) join into one phase as long as they follow each
// other: a thread takes the same rows through all of them, no barrier between. Matmuls that follow each other and do
// not read each other share one phase: their panels are one list. A value that a quantized matmul reads is quantized in
// the phase that writes it where that works row by row, else in a phase of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <llminfer/backend/backend.hpp>

#include "core/vector.h"

namespace llminfer::cpu {

enum class PhaseKind : std::uint8_t { rows, matmul, moe_matmul, attention };

/// One thing done to each row: an op, or (op = none) the quantization of a value.
struct RowStep {
  std::int32_t op = backend::none;
  backend::ValueId quantize = backend::none;
};

struct Phase {
  PhaseKind kind = PhaseKind::rows;
  backend::Rows rows = backend::Rows::tokens;
  std::int32_t first_op = 0;  ///< covers ops [first_op, first_op + op_count)
  std::int32_t op_count = 0;
  std::int32_t first_step = 0;  ///< rows only: steps [first_step, first_step + step_count)
  std::int32_t step_count = 0;
};

constexpr std::uint64_t no_place = ~std::uint64_t{0};

struct Schedule {
  core::Vector<Phase> phases{};
  core::Vector<RowStep> steps{};           ///< of all phases
  core::Vector<std::uint64_t> value_at{};  ///< byte offset of each value in the activations
  core::Vector<std::uint64_t> quant_at{};  ///< of its quantized form, or no_place
  std::uint64_t bytes = 0;

  std::span<const RowStep> steps_of(const Phase& phase) const noexcept {
    return {steps.data() + phase.first_step, static_cast<std::size_t>(phase.step_count)};
  }
};

/// Bytes of `rows` quantized rows of `width` values: planes q, d, sum, half (see QuantRow).
std::uint64_t quant_bytes(std::int64_t rows, std::int64_t width) noexcept;

/// The tables come from `memory`. The graph must have passed graph::check. Throws unsupported_type, out_of_memory.
Schedule make_schedule(const backend::Graph& graph, const backend::Limits& limits,
                       const std::shared_ptr<core::Memory>& memory);

}  // namespace llminfer::cpu
