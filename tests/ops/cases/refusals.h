// Steps with one thing wrong: a device must refuse them before it uses any of it as an index.
#pragma once

#include <llminfer/backend/op_cases.hpp>

namespace llminfer::op_cases {

/// Adds a result per wrong step whose name contains the filter.
void run_refusals(const backend::Backend& device, const backend::OpCaseOptions& options,
                  std::vector<backend::OpCaseResult>& results);

}  // namespace llminfer::op_cases
