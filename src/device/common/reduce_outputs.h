// The reduced outputs of a step (arg-max, top-k with log-sum-exp) from a row of logits: what they mean.
#pragma once

#include <cstdint>
#include <llminfer/backend/step.hpp>
#include <span>

namespace llminfer::device {

/// Fills row `row` of `outputs` from its logits. NaN loses every comparison. Tokens outside the mask count as
/// -infinity; if none is allowed the id is 0 with score -infinity. Allocates nothing. Spans must fit (see check_batch).
void reduce_row(std::span<const float> logits, std::size_t row, const backend::StepOutputs& outputs) noexcept;

}  // namespace llminfer::device
