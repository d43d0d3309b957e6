// How far two results of a step are apart.
#pragma once

#include "run_case.h"

namespace llminfer::op_cases {

/// What compare() saw so far.
struct Difference {
  double error = 0;       ///< normalised; infinite where values are not numbers or ids differ
  std::string message{};  ///< where the first infinite difference is
};

/// Adds the difference of one step's outputs (`number` names it in the message).
void compare(const OpCase& op_case, std::size_t number, const StepResult& device, const StepResult& reference,
             Difference& difference);

}  // namespace llminfer::op_cases
