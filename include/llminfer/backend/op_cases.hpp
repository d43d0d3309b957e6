// The list of op cases that every device is tested with: small graphs of one op or a few, run on the device and on the
// reference device, outputs compared. In a library of its own (CMake: find_package(llminfer COMPONENTS op_cases),
// target llminfer::op_cases) that needs no test framework, so that the author of a device can run it.
//
// An error is the largest |device - reference| of an output row, divided by the root mean square of the reference's row
// (for products of unit-scale inputs by 1 where the row is smaller). The limit of each op:
//
//   slice, gather_rows          0        copies
//   add, scale                  2e-7     one rounding
//   embed                       2e-6     one product a weight
//   rms_norm, layer_norm        1e-5
//   rope                        1e-5     the angle is the exact product, at any position
//   softcap                     1e-6     of the cap
//   gated_activation            1e-5     own exp and tanh
//   moe_route                   1e-5     ids must be equal
//   matmul, moe_matmul          1e-4     f32, f16, bf16 weights
//                               5e-2     quantized weights: inputs may be rounded to int8, by 32 or 256 values
//   moe_combine                 1e-5
//   paged_attention             5e-4     f32 cache
//                               2e-3     f16        2e-2  bf16       3e-2  q8_0, q4_0 (queries may be rounded to int8)
//   whole decoder               1e-3     f32 weights and cache
//                               2e-1     quantized: the errors of a product pass through several more
//   arg_max, top_k              ids must be equal, scores and log-sum-exp 1e-5
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <llminfer/backend/backend.hpp>

namespace llminfer {
inline namespace v0 {
namespace backend {

enum class OpCaseOutcome : std::uint8_t {
  passed,
  failed,
  unsupported,  ///< the device refused to compile the graph, or to make the cache, with unsupported_type
};

struct OpCaseResult {
  std::string name{};  ///< "matmul/q4_0 96x33 bias"
  OpCaseOutcome outcome = OpCaseOutcome::passed;
  double error = 0;       ///< largest of all outputs of all steps
  double limit = 0;       ///< what it may be
  std::string message{};  ///< why it failed or is unsupported
};

struct OpCaseOptions {
  std::string filter{};  ///< run only cases whose name contains this
  bool slow = false;     ///< the large shapes as well
  bool refusals = true;  ///< also: steps with anything out of bounds must be refused with invalid_argument
  std::function<void(const OpCaseResult&)> on_result{};  ///< called after each case; may be empty
};

/// Runs the cases in order on both devices. Error: invalid_argument when no case has the filter in its name; what the
/// reference fails with. Takes seconds, minutes with `slow`. The page sizes of the two devices may differ.
Result<std::vector<OpCaseResult>> run_op_cases(const Backend& device, const Backend& reference,
                                               const OpCaseOptions& options = {});

}  // namespace backend
}  // namespace v0
}  // namespace llminfer
