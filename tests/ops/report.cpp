#include "report.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

namespace llminfer::tests {
namespace {

using backend::OpCaseOutcome;
using backend::OpCaseResult;

struct Summary {
  int cases = 0;
  int unsupported = 0;
  double error = 0;  ///< of the case nearest to its limit (or farthest beyond it)
  double limit = 0;
};

void add(Summary& s, const OpCaseResult& r) {
  ++s.cases;
  s.unsupported += r.outcome == OpCaseOutcome::unsupported ? 1 : 0;
  const auto share = [](double error, double limit) { return limit > 0 ? error / limit : error; };
  if (s.cases == 1 || share(r.error, r.limit) > share(s.error, s.limit)) {
    s.error = r.error;
    s.limit = r.limit;
  }
}

}  // namespace

bool read_options(int argc, char** argv, backend::OpCaseOptions& options) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--slow") == 0) {
      options.slow = true;
    } else if (std::strcmp(argv[i], "--filter") == 0 && i + 1 < argc) {
      options.filter = argv[++i];
    } else {
      std::fprintf(stderr, "usage: %s [--slow] [--filter TEXT]\n", argv[0]);
      return false;
    }
  }
  return true;
}

int run_and_report(const char* title, const backend::Backend& device, const backend::Backend& reference,
                   backend::OpCaseOptions options, double cap, std::string_view may_lack) {
  std::map<std::string, Summary> ops;
  int bad = 0;
  options.on_result = [&](const OpCaseResult& result) {
    OpCaseResult r = result;
    const std::string op = r.name.substr(0, r.name.find('/'));
    if (op != "decoder") r.limit = std::min(r.limit, cap);
    if (r.outcome == OpCaseOutcome::passed && r.error > r.limit) r.outcome = OpCaseOutcome::failed;
    add(ops[op], r);
    if (r.outcome == OpCaseOutcome::passed) return;
    const bool known = r.outcome == OpCaseOutcome::unsupported && r.message.find(may_lack) != std::string::npos;
    if (known) return;
    ++bad;
    std::printf("%s: %s, error %.3g, limit %.3g: %s\n", r.outcome == OpCaseOutcome::failed ? "FAILED" : "UNSUPPORTED",
                r.name.c_str(), r.error, r.limit, r.message.c_str());
    std::fflush(stdout);
  };
  const auto results = backend::run_op_cases(device, reference, options);
  if (!results) {
    std::printf("%s: %s: %s\n", title, to_string(results.error().code), results.error().message.c_str());
    return 1;
  }
  std::printf("%s\n%-18s %6s %12s %10s %10s\n", title, "op", "cases", "unsupported", "error", "limit");
  for (const auto& [name, s] : ops) {
    std::printf("%-18s %6d %12d %10.2g %10.2g\n", name.c_str(), s.cases, s.unsupported, s.error, s.limit);
  }
  std::printf("%zu cases, %d bad\n", results->size(), bad);
  return bad == 0 ? 0 : 1;
}

}  // namespace llminfer::tests
