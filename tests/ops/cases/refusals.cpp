#include "refusals.h"

#include <algorithm>

#include "case_builder.h"
#include "compare.h"

namespace llminfer::op_cases {
namespace {

using backend::OpCaseOutcome;
using backend::OpCaseResult;

constexpr std::int32_t vocabulary = 50;
constexpr std::int32_t window = 40;

/// What one wrong step is made of, to be spoiled.
struct Bad {
  BatchData batch;
  CaseStep step;  ///< kind, k and mask of the outputs
  StepResult result;
  std::int32_t pages = 0;  ///< in the storage, of every group
  std::int32_t page_size = 0;
  std::int32_t context = 0;
  std::int32_t tokens = 0;  ///< limits
  std::int32_t sequences = 0;
  std::int32_t outputs = 0;
};

struct Refusal {
  const char* name;
  void (*spoil)(Bad&);
};

/// Turns a sequence's range and its positions to [start, start + count).
void move_to(Bad& b, std::size_t s, std::int32_t start) {
  b.batch.sequences[s].start = start;
  for (std::int32_t i = 0; i < b.batch.sequences[s].count; ++i) {
    b.batch.positions[static_cast<std::size_t>(b.batch.sequences[s].first + i)] = start + i;
  }
}

void one_more_token(Bad& b) {
  b.batch.tokens.push_back(0);
  b.batch.positions.push_back(b.batch.positions.back() + 1);
  ++b.batch.sequences.back().count;
}

/// The step has sequence 0 at positions 100 .. 102 and sequence 1 at 0 .. 32; group 0 keeps all, group 1 a window.
/// Page tables: [group 0: sequence 0, sequence 1, group 1: sequence 0, sequence 1].
constexpr Refusal refusals[] = {
    {"token below 0", [](Bad& b) { b.batch.tokens[1] = -1; }},
    {"token beyond the vocabulary", [](Bad& b) { b.batch.tokens.back() = vocabulary; }},
    {"token of 2^31 - 1", [](Bad& b) { b.batch.tokens[0] = 0x7fffffff; }},
    {"more tokens than the limit", one_more_token},
    {"more sequences than the limit",
     [](Bad& b) {
       b.batch.sequences.back().count -= 1;
       const std::int32_t last = b.batch.sequences.back().first + b.batch.sequences.back().count;
       b.batch.sequences.push_back({last, 1, b.batch.positions.back(), 0});
       b.batch.tables = {b.batch.tables[0], b.batch.tables[1], b.batch.tables[1],
                         b.batch.tables[2], b.batch.tables[3], b.batch.tables[3]};
     }},
    {"more output rows than the limit",
     [](Bad& b) {
       b.batch.output_rows = {0, 1, 2, 3, 4, 5, 6};
       b.result.values.resize(b.batch.output_rows.size() * 64);
     }},
    {"fewer positions than tokens", [](Bad& b) { b.batch.positions.pop_back(); }},
    {"more positions than tokens", [](Bad& b) { b.batch.positions.push_back(33); }},
    {"no positions", [](Bad& b) { b.batch.positions.clear(); }},
    {"a position that does not count up", [](Bad& b) { b.batch.positions[1] = 100; }},
    {"positions other than the range's", [](Bad& b) { b.batch.sequences[0].start = 99; }},
    {"a position below 0", [](Bad& b) { move_to(b, 1, -1); }},
    {"a position at the context's end", [](Bad& b) { move_to(b, 0, b.context - 2); }},
    {"a position of 2^31 - 1", [](Bad& b) { b.batch.sequences[0].start = 0x7fffffff; }},
    {"a range that starts late", [](Bad& b) { b.batch.sequences[0].first = 1; }},
    {"a range with a hole before it", [](Bad& b) { b.batch.sequences[1].first = 4; }},
    {"a range over another", [](Bad& b) { b.batch.sequences[1].first = 2; }},
    {"a range of no token", [](Bad& b) { b.batch.sequences[0].count = 0; }},
    {"a range of negative length", [](Bad& b) { b.batch.sequences[0].count = -3; }},
    {"a range beyond the tokens", [](Bad& b) { b.batch.sequences[1].count += 1; }},
    {"a range of 2^31 - 1 tokens", [](Bad& b) { b.batch.sequences[1].count = 0x7fffffff; }},
    {"tokens of no range", [](Bad& b) { b.batch.sequences[1].count -= 1; }},
    {"no ranges",
     [](Bad& b) {
       b.batch.sequences.clear();
       b.batch.tables.clear();
     }},
    {"an output row below 0", [](Bad& b) { b.batch.output_rows[0] = -1; }},
    {"an output row beyond the tokens", [](Bad& b) { b.batch.output_rows.back() = 36; }},
    {"output rows that fall",
     [](Bad& b) {
       b.batch.output_rows = {5, 2};
     }},
    {"the same output row twice",
     [](Bad& b) {
       b.batch.output_rows = {2, 2};
     }},
    {"no page tables", [](Bad& b) { b.batch.tables.clear(); }},
    {"a page table too few", [](Bad& b) { b.batch.tables.pop_back(); }},
    {"a page table of no pages", [](Bad& b) { b.batch.tables[0] = {}; }},
    {"a page table that is too short", [](Bad& b) { --b.batch.tables[0].count; }},
    {"a page table of negative length", [](Bad& b) { b.batch.tables[3].count = -1; }},
    {"a page beyond the storage", [](Bad& b) { b.batch.pages[0][1] = b.pages; }},
    {"a page of 2^31 - 1", [](Bad& b) { b.batch.pages[1][0] = 0x7fffffff; }},
    {"a page that is missing", [](Bad& b) { b.batch.pages[0][0] = -1; }},
    {"a page of -2", [](Bad& b) { b.batch.pages[0][0] = -2; }},
    {"a page that is missing inside the window", [](Bad& b) { b.batch.pages[2].back() = -1; }},
    {"the first page of the window missing",
     [](Bad& b) { b.batch.pages[2][static_cast<std::size_t>((100 - window + 1) / b.page_size)] = -1; }},
    {"logits of too little room", [](Bad& b) { b.result.values.pop_back(); }},
    {"hidden state of too little room",
     [](Bad& b) {
       b.step.kind = backend::OutputKind::hidden;
       b.result.values.pop_back();
     }},
    {"ids of too little room",
     [](Bad& b) {
       b.step.kind = backend::OutputKind::arg_max;
       b.result.ids.resize(1);
       b.result.scores.resize(2);
     }},
    {"scores of too little room",
     [](Bad& b) {
       b.step.kind = backend::OutputKind::top_k;
       b.step.k = 4;
       b.result.ids.resize(8);
       b.result.scores.resize(7);
       b.result.log_sum_exp.resize(2);
     }},
    {"log-sum-exp of too little room",
     [](Bad& b) {
       b.step.kind = backend::OutputKind::top_k;
       b.step.k = 4;
       b.result.ids.resize(8);
       b.result.scores.resize(8);
       b.result.log_sum_exp.resize(1);
     }},
    {"k of 0",
     [](Bad& b) {
       b.step.kind = backend::OutputKind::top_k;
       b.step.k = 0;
       b.result.log_sum_exp.resize(2);
     }},
    {"k below 0",
     [](Bad& b) {
       b.step.kind = backend::OutputKind::top_k;
       b.step.k = -1;
       b.result.log_sum_exp.resize(2);
     }},
    {"k beyond the vocabulary",
     [](Bad& b) {
       b.step.kind = backend::OutputKind::top_k;
       b.step.k = 65;
       b.result.ids.resize(130);
       b.result.scores.resize(130);
       b.result.log_sum_exp.resize(2);
     }},
    {"a token mask that is too short",
     [](Bad& b) {
       b.step.kind = backend::OutputKind::arg_max;
       b.result.ids.resize(2);
       b.result.scores.resize(2);
       b.step.allowed.resize(3);
     }},
};

/// Two layers of attention over the same input, one windowed; the outputs are 64 wide. The refused steps come after the
/// first one: sequence 0 has 100 tokens.
OpCase refusal_case() {
  CaseBuilder b("refuse");
  const ValueId in = b.input(64, vocabulary);
  ValueId x = in;
  for (const std::int32_t w : {0, window}) {
    const backend::StateSlot slot = b.state(w, 2, 16, 16);
    b.push(backend::KvWrite{b.slice(in, 0, 32), b.slice(in, 32, 32), slot});
    backend::PagedAttention op;
    op.q = x;
    op.slot = slot;
    op.heads = 4;
    op.scale = 0.25F;
    x = b.add(op, in, 64);
  }
  const ValueId last = b.gather(x);
  b.graph().hidden = last;
  b.step(100).output_rows = {99};
  b.step({{0, 100, 3}, {1, 0, 33}}).output_rows = {2, 35};
  // The largest step of all, for the limits: 100 tokens, 2 sequences, 2 outputs. `one_more_token` needs it full.
  b.graph().context = 160;
  const ValueId out = b.add(backend::Scale{last, none, 1.0F}, last, 64);
  OpCase done = b.finish(out, 2e-3);
  return done;
}

}  // namespace

namespace {

/// Runs one spoiled step; then the good one, whose outputs must be what they were.
OpCaseResult refuse(const Refusal& refusal, const OpCase& op_case, CaseRun& run, const StepResult& good) {
  OpCaseResult out;
  out.name = std::string("refuse/") + refusal.name;
  const CaseStep& step = op_case.steps[1];
  Bad bad;
  bad.step = step;
  bad.batch = BatchData::of(run, *op_case.graph, step);
  // The page tables borrow from `pages`, which moved.
  for (std::size_t i = 0; i < bad.batch.pages.size(); ++i) bad.batch.tables[i].pages = bad.batch.pages[i].data();
  bad.result = make_result(*op_case.graph, step);
  bad.pages = std::max(run.pages(0), run.pages(1));
  bad.page_size = run.page_size();
  bad.context = op_case.graph->context;
  if (refusal.spoil == &one_more_token) {
    while (static_cast<std::int32_t>(bad.batch.tokens.size()) < run.limits().tokens) one_more_token(bad);
  }
  refusal.spoil(bad);
  const backend::StopFlag stop;
  const backend::Status status =
      run.program().run(bad.batch.view(), run.kv(), run.workspace(), outputs_into(bad.result, bad.step), stop, nullptr);
  if (status.ok() || status.code != ErrorCode::invalid_argument) {
    out.outcome = OpCaseOutcome::failed;
    out.message = status.ok() ? "the step was run" : std::string("refused as ") + to_string(status.code);
    return out;
  }
  const Result<StepResult> again = run.step(step);
  Difference difference;
  if (again) compare(op_case, 1, *again, good, difference);
  if (!again || difference.error > 0) {
    out.outcome = OpCaseOutcome::failed;
    out.message = "the good step after it " + (again ? "has other outputs" : "failed: " + again.error().message);
  }
  return out;
}

}  // namespace

void run_refusals(const backend::Backend& device, const backend::OpCaseOptions& options,
                  std::vector<OpCaseResult>& results) {
  const auto add = [&](OpCaseResult result) {
    if (options.on_result) options.on_result(result);
    results.push_back(std::move(result));
  };
  const auto wanted = [&](const Refusal& r) {
    return (std::string("refuse/") + r.name).find(options.filter) != std::string::npos;
  };
  if (std::none_of(std::begin(refusals), std::end(refusals), wanted)) return;
  const OpCase op_case = refusal_case();
  Result<CaseRun> run = CaseRun::open(device, op_case);
  Result<StepResult> good = run ? run->step(op_case.steps[0]) : Result<StepResult>(run.error());
  if (good) good = run->step(op_case.steps[1]);
  if (!good) {
    const bool unsupported = good.error().code == ErrorCode::unsupported_type;
    add({"refuse", unsupported ? OpCaseOutcome::unsupported : OpCaseOutcome::failed, 0, 0, good.error().message});
    return;
  }
  for (const Refusal& refusal : refusals) {
    if (wanted(refusal)) add(refuse(refusal, op_case, *run, *good));
  }
}

}  // namespace llminfer::op_cases
