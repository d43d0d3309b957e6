#include <cstdio>
#include <cstring>

#include "commands.h"
#include "device/reference/reference_backend.h"
#include "ops/cases/compare.h"
#include "ops/cases/op_case.h"

namespace gpu_check {
namespace {

using namespace llminfer;  // NOLINT(google-build-using-namespace): a program

struct Outcome {
  double error = 0;
  std::string trouble{};
  bool unsupported = false;
};

Outcome run(const op_cases::OpCase& c, const backend::Backend& device, const backend::Backend& reference) {
  auto ours = op_cases::CaseRun::open(device, c);
  if (!ours) return {0, ours.error().message, ours.error().code == ErrorCode::unsupported_type};
  auto theirs = op_cases::CaseRun::open(reference, c);
  if (!theirs) return {0, "reference: " + theirs.error().message, false};
  op_cases::Difference difference;
  for (std::size_t i = 0; i < c.steps.size(); ++i) {
    const auto a = ours->step(c.steps[i]);
    if (!a) return {0, a.error().message, false};
    const auto b = theirs->step(c.steps[i]);
    if (!b) return {0, "reference: " + b.error().message, false};
    op_cases::compare(c, i, *a, *b, difference);
  }
  return {difference.error, difference.message, false};
}

std::uint64_t hash_of(const std::vector<float>& values, std::uint64_t h) {
  for (const float v : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &v, sizeof(bits));
    h = (h ^ bits) * 1099511628211ULL;
  }
  return h;
}

/// The last step with one token for each sequence, if a case has one.
const op_cases::CaseStep* step_of_text(const op_cases::OpCase& c) {
  for (auto s = c.steps.rbegin(); s != c.steps.rend(); ++s) {
    bool one_each = true;
    for (const op_cases::Part& p : s->parts) one_each = one_each && p.count == 1;
    if (one_each) return &*s;
  }
  return nullptr;
}

/// False: an output had other bits. `done` counts the steps.
bool repeat(const op_cases::OpCase& c, const op_cases::CaseStep& step, const backend::Backend& device, int count,
            int& done, Json& out) {
  auto run = op_cases::CaseRun::open(device, c).value();
  for (const op_cases::CaseStep& s : c.steps) run.step(s).value();
  std::uint64_t first = 0;
  for (int i = 0; i < count; ++i, ++done) {
    const op_cases::StepResult r = run.step(step).value();
    const std::uint64_t h = hash_of(r.scores, hash_of(r.values, 14695981039346656037ULL));
    if (i == 0) first = h;
    if (h != first) {
      out["failed"] = c.name + ": step " + std::to_string(i) + " has other bits than the first";
      return false;
    }
  }
  out["hashes"][c.name] = first;
  return true;
}

}  // namespace

bool correct(const backend::Backend& device, const Options& options, Json& out) {
  const auto reference = device::make_reference_backend();
  Json failed = Json::array();
  int cases = 0, unsupported = 0;
  double worst = 0;
  std::string worst_name;
  for (const op_cases::CaseEntry& entry : op_cases::all_cases()) {
    if ((entry.slow && !options.slow) || entry.name.find(options.filter) == std::string::npos) continue;
    // The name is what a case's random numbers start from.
    const op_cases::OpCase c = entry.make(entry.name + " seed " + std::to_string(options.seed));
    const Outcome o = run(c, device, *reference);
    ++cases;
    unsupported += o.unsupported ? 1 : 0;
    if (o.unsupported) continue;
    if (o.error / c.limit > worst) {
      worst = o.error / c.limit;
      worst_name = c.name;
    }
    if (!o.trouble.empty() || !(o.error <= c.limit)) {
      failed.push_back({{"case", c.name}, {"error", o.error}, {"limit", c.limit}, {"message", o.trouble}});
      std::fprintf(stderr, "FAILED %s: error %g, limit %g %s\n", c.name.c_str(), o.error, c.limit, o.trouble.c_str());
    }
  }
  out = {{"seed", options.seed},          {"cases", cases},           {"unsupported", unsupported},
         {"worst_share_of_limit", worst}, {"worst_case", worst_name}, {"failed", failed}};
  return cases > 0 && failed.empty();
}

bool replay(const backend::Backend& device, const Options& options, Json& out) {
  out = {{"seed", options.seed}};
  int done = 0, cases = 0;
  op_cases::CaseList list;
  op_cases::add_decoder_cases(list);
  for (const op_cases::CaseEntry& entry : list) {
    if (entry.slow || entry.name.find(options.filter) == std::string::npos) continue;
    const op_cases::OpCase c = entry.make(entry.name + " seed " + std::to_string(options.seed));
    const op_cases::CaseStep* step = step_of_text(c);
    if (step == nullptr) continue;
    ++cases;
    if (!repeat(c, *step, device, options.count, done, out)) return false;
  }
  out["cases"] = cases;
  out["steps"] = done;
  return cases > 0;
}

}  // namespace gpu_check
