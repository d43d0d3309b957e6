#include <llminfer/backend/op_cases.hpp>

#include "compare.h"
#include "refusals.h"

namespace llminfer::op_cases {

CaseList all_cases() {
  CaseList list;
  add_copy_cases(list);
  add_elementwise_cases(list);
  add_norm_cases(list);
  add_matmul_cases(list);
  add_rope_cases(list);
  add_attention_cases(list);
  add_moe_cases(list);
  add_output_cases(list);
  add_decoder_cases(list);
  return list;
}

namespace {

using backend::Backend;
using backend::OpCaseOptions;
using backend::OpCaseOutcome;
using backend::OpCaseResult;

void fail(OpCaseResult& result, const Error& error, bool may_be_unsupported) {
  const bool unsupported = may_be_unsupported && error.code == ErrorCode::unsupported_type;
  result.outcome = unsupported ? OpCaseOutcome::unsupported : OpCaseOutcome::failed;
  result.message = std::string(to_string(error.code)) + ": " + error.message;
}

/// All steps on both devices. An Error is the reference's.
Result<OpCaseResult> run_case(const OpCase& op_case, const Backend& device, const Backend& reference) {
  OpCaseResult out;
  out.name = op_case.name;
  out.limit = op_case.limit;
  Result<CaseRun> ours = CaseRun::open(device, op_case);
  if (!ours) {
    fail(out, ours.error(), true);
    return out;
  }
  Result<CaseRun> theirs = CaseRun::open(reference, op_case);
  if (!theirs) return theirs.error();
  Difference difference;
  for (std::size_t i = 0; i < op_case.steps.size(); ++i) {
    const Result<void> moved = i > 0 ? ours->move_pages() : Result<void>();
    if (!moved) {
      fail(out, moved.error(), false);
      return out;
    }
    const Result<StepResult> a = ours->step(op_case.steps[i]);
    if (!a) {
      fail(out, a.error(), false);
      return out;
    }
    const Result<StepResult> b = theirs->step(op_case.steps[i]);
    if (!b) return b.error();
    compare(op_case, i, *a, *b, difference);
  }
  out.error = difference.error;
  if (out.error <= out.limit) return out;
  out.outcome = OpCaseOutcome::failed;
  out.message = difference.message.empty() ? "the error is above the limit" : difference.message;
  return out;
}

Result<std::vector<OpCaseResult>> run_all(const Backend& device, const Backend& reference,
                                          const OpCaseOptions& options) {
  std::vector<OpCaseResult> results;
  for (const CaseEntry& entry : all_cases()) {
    if ((entry.slow && !options.slow) || entry.name.find(options.filter) == std::string::npos) continue;
    Result<OpCaseResult> result = run_case(entry.make(entry.name), device, reference);
    if (!result) {
      Error error = result.error();
      error.message = "reference, case " + entry.name + ": " + error.message;
      return error;
    }
    if (options.on_result) options.on_result(*result);
    results.push_back(std::move(*result));
  }
  if (options.refusals) run_refusals(device, options, results);
  if (results.empty()) return Error{ErrorCode::invalid_argument, "filter: no case contains '" + options.filter + "'"};
  return results;
}

}  // namespace
}  // namespace llminfer::op_cases

namespace llminfer {
inline namespace v0 {
namespace backend {

Result<std::vector<OpCaseResult>> run_op_cases(const Backend& device, const Backend& reference,
                                               const OpCaseOptions& options) {
  try {
    return op_cases::run_all(device, reference, options);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::out_of_memory, "op cases", "run_op_cases"};
  } catch (const std::exception& e) {
    return Error{ErrorCode::callback_failed, e.what(), "run_op_cases"};
  }
}

}  // namespace backend
}  // namespace v0
}  // namespace llminfer
