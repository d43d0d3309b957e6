// The reduced outputs of a step (arg-max, top-k with log-sum-exp) from a row of logits: what they mean.
#pragma once

#include <cstdint>
#include <llminfer/backend/step.hpp>
#include <span>

namespace llminfer::device {

/// Whether a score ranks before another: a NaN before every number.
constexpr bool ranks_before(float a, float b) noexcept { return a > b || (a != a && b == b); }

/// Fills row `row` of `outputs` from its logits. A NaN ranks first. Other tokens outside the mask count as -infinity;
/// if none is allowed the id is 0 with score -infinity. Allocates nothing. Spans must fit (see check_batch).
void reduce_row(std::span<const float> logits, std::size_t row, const backend::StepOutputs& outputs) noexcept;

}  // namespace llminfer::device
