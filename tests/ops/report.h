// What the programs of this folder print, and when they fail.
#pragma once

#include <llminfer/backend/op_cases.hpp>
#include <string_view>

namespace llminfer::tests {

/// Reads --slow and --filter TEXT; anything else: prints the usage and returns false.
bool read_options(int argc, char** argv, backend::OpCaseOptions& options);

/// Runs the list, prints every failure and per op the largest error beside its limit. Returns the exit code: 1 when a
/// case failed, or is unsupported for a reason that does not contain `may_lack`. `cap`: no limit of a single op is
/// above this, for two implementations that are precise.
int run_and_report(const char* title, const backend::Backend& device, const backend::Backend& reference,
                   backend::OpCaseOptions options, double cap = 1, std::string_view may_lack = "\n");

}  // namespace llminfer::tests
