// The declared cost of every op is what plain loops touch and do: over all op cases, with their batches, weight types
// and cache formats.
#include <set>
#include <string>

#include "catch.h"
#include "counting_device.h"
#include "graph/op_io.h"
#include "ops/cases/op_case.h"

using namespace llminfer;

namespace {

tests::CountedStep step_of(const op_cases::OpCase& op_case, const op_cases::CaseStep& step) {
  tests::CountedStep out;
  for (const op_cases::Part& part : step.parts) out.shape.sequences.push_back({part.start, part.count});
  out.shape.outputs = static_cast<std::int32_t>(step.output_rows.size());
  out.shape.kv = op_case.kv;
  out.tokens = step.tokens;
  out.output_rows = step.output_rows;
  tests::complete(*op_case.graph, out);
  return out;
}

std::uint64_t work_of(const op_cases::OpCase& op_case) {
  std::uint64_t flops = 0;
  for (const op_cases::CaseStep& step : op_case.steps) {
    flops += graph::cost_of(*op_case.graph, step_of(op_case, step).shape).flops;
  }
  return flops;
}

}  // namespace

TEST_CASE("declared bytes and operations are those that plain loops count") {
  constexpr std::uint64_t most_work = 3'000'000;  // loops over more would take seconds; smaller cases have all kinds
  std::size_t ops = 0, left_out = 0;
  std::set<std::string> kinds;
  std::set<WeightType> types;
  for (const op_cases::CaseEntry& entry : op_cases::all_cases()) {
    if (entry.slow) continue;
    const op_cases::OpCase op_case = entry.make(entry.name);
    if (work_of(op_case) > most_work) {
      ++left_out;
      continue;
    }
    for (const op_cases::CaseStep& step : op_case.steps) {
      const tests::CountedStep counted = step_of(op_case, step);
      for (std::size_t i = 0; i < op_case.graph->ops.size(); ++i) {
        const graph::OpCost declared = graph::cost_of(*op_case.graph, i, counted.shape);
        const graph::OpCost done = tests::count_op(*op_case.graph, i, counted);
        const bool equal = declared.weight_bytes == done.weight_bytes &&
                           declared.activation_bytes == done.activation_bytes &&
                           declared.kv_read_bytes == done.kv_read_bytes &&
                           declared.kv_write_bytes == done.kv_write_bytes && declared.flops == done.flops;
        ++ops;
        kinds.insert(graph::name_of(op_case.graph->ops[i]));
        if (equal) continue;
        INFO(entry.name << ", op " << i << " " << graph::name_of(op_case.graph->ops[i]));
        CHECK(declared.weight_bytes == done.weight_bytes);
        CHECK(declared.activation_bytes == done.activation_bytes);
        CHECK(declared.kv_read_bytes == done.kv_read_bytes);
        CHECK(declared.kv_write_bytes == done.kv_write_bytes);
        CHECK(declared.flops == done.flops);
      }
    }
    for (const backend::Weight& w : op_case.graph->weights) types.insert(w.type);
  }
  CHECK(kinds.size() == std::variant_size_v<backend::Op>);
  CHECK(types.size() == 16);
  CHECK(ops > 2000);
  CHECK(left_out < ops);
}
