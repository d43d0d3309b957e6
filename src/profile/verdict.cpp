// What bounds a phase: questions in the order in which the answers exclude each other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "graph/op_io.h"
#include "profile/analysis.h"
#include "profile/step_forecast.h"

namespace llminfer::profile {
namespace {

constexpr double much = 0.3;         // of a phase's time: then it is what bounds the phase
constexpr double slow_factor = 1.6;  // a kind of op this many times over its forecast is slow, where calibrated
constexpr double slow_guess = 4;     // where the forecast is a guess

int percent(double share) { return static_cast<int>(std::lround(100 * share)); }

struct Judge {
  const PhaseTotals& totals;
  const Recorder& recorder;
  const Subject& subject;
  PhaseReport& phase;

  void set(Bound bound, std::string evidence) {
    phase.bound = bound;
    phase.evidence = std::move(evidence);
  }

  bool waits_outside() {
    const double share = phase.outside_seconds / phase.seconds;
    if (share < much) return false;
    set(Bound::waiting, fmt::format("{} % of the time passes in the application between steps: callbacks, or between "
                                    "calls of the session; the device waits",
                                    percent(share)));
    return true;
  }

  bool schedules() {
    const double rest = phase.sampling_seconds + phase.scheduling_seconds;
    if (rest / phase.seconds < much) return false;
    const bool sampling = phase.sampling_seconds > phase.scheduling_seconds;
    set(Bound::overhead,
        fmt::format("{} takes {} % of the time, the device {} %", sampling ? "choosing tokens" : "scheduling",
                    percent(rest / phase.seconds), percent(phase.step_seconds / phase.seconds)));
    return true;
  }

  bool slow_kernel() {
    struct Kind {
      double measured = 0, expected = 0;
    };
    std::map<std::string, Kind> kinds;
    const backend::Graph& graph = recorder.graph();
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      Kind& kind = kinds[graph::name_of(graph.ops[i])];
      kind.measured += totals.op_ns[i] * 1e-9;
      kind.expected += totals.op_expected_s[i];
    }
    std::string worst;
    double most = 0;
    for (const auto& [name, kind] : kinds) {
      if (kind.measured - kind.expected > most) most = kind.measured - kind.expected, worst = name;
    }
    const Kind& kind = kinds[worst];
    const double factor = recorder.model().calibrated() ? slow_factor : slow_guess;
    if (worst.empty() || most < much * phase.step_seconds || kind.measured < factor * kind.expected) return false;
    set(Bound::slow_kernel,
        fmt::format("{} takes {:.1f} times as long as such kernels took in the calibration ({} % of "
                    "the steps' time)",
                    worst, kind.measured / std::max(1e-12, kind.expected),
                    percent(kind.measured / phase.step_seconds)));
    return true;
  }

  bool waits_at_barriers() {
    const double share = phase.barrier_seconds / phase.step_seconds;
    if (share < much) return false;
    set(Bound::waiting,
        fmt::format("threads wait for each other {} % of the time: work that does not divide evenly, or "
                    "other programs on their cores",
                    percent(share)));
    return true;
  }

  bool lacks_threads() {
    if (subject.cores <= subject.threads) return false;
    const bool measured = subject.ceilings.at.back().threads > subject.threads;
    const CostModel more(subject.ceilings, subject.ceilings.at.back().threads);
    const double gain = measured ? std::max(more.memory_rate() / recorder.model().memory_rate(),
                                            more.f32_rate() / recorder.model().f32_rate())
                                 : static_cast<double>(subject.cores) / subject.threads;
    if (gain < 1.25) return false;
    set(Bound::threads,
        fmt::format("the device computes with {} of {} cores: all of them read {:.1f} and multiply {:.1f} "
                    "times as fast",
                    subject.threads, subject.cores, more.memory_rate() / recorder.model().memory_rate(),
                    more.f32_rate() / recorder.model().f32_rate()));
    return true;
  }

  bool too_small() {
    const double fixed = recorder.model().op_overhead() * static_cast<double>(recorder.graph().ops.size()) *
                         static_cast<double>(totals.steps);
    const double share = (fixed + phase.dispatch_seconds) / phase.step_seconds;
    const double roof = phase.all.roof_seconds / phase.step_seconds;
    if (share < much && roof > 0.1) return false;
    set(Bound::overhead,
        fmt::format("{} ops a step take {:.0f} us, {:.0f} us at the roofs: starting and joining them is what takes the "
                    "time{}",
                    recorder.graph().ops.size(), 1e6 * phase.step_seconds / static_cast<double>(totals.steps),
                    1e6 * phase.all.roof_seconds / static_cast<double>(totals.steps),
                    weight_bytes_of(recorder.graph()) < recorder.model().cache_bytes()
                        ? "; the weights fit into the last cache"
                        : ""));
    return true;
  }

  void roofs() {
    double memory = 0, compute = 0, kv = 0;
    const backend::Graph& graph = recorder.graph();
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      const double time = totals.op_ns[i];
      const bool cache = family_of(graph.ops[i]) == KernelFamily::attention && phase.kind == PhaseKind::decode;
      (cache ? kv : totals.op_compute_s[i] > totals.op_memory_s[i] ? compute : memory) += time;
    }
    const double all = std::max(1.0, memory + compute + kv);
    const OpSummary& sum = phase.all;
    const std::string rates =
        fmt::format("{:.1f} of {:.1f} GB/s, {:.1f} GFLOP/s, {:.1f} operations a byte, {} % of the attainable roof",
                    sum.bytes_per_s() / 1e9, recorder.model().memory_rate() / 1e9, sum.flops_per_s() / 1e9,
                    sum.intensity(), percent(sum.roof_share()));
    if (kv > memory && kv > compute) {
      set(Bound::kv, fmt::format("{} % of the ops' time reads cached keys and values, {:.0f} tokens a sequence: {}",
                                 percent(kv / all), phase.context, rates));
    } else if (compute > memory) {
      set(Bound::compute, fmt::format("{} % of the ops' time is multiply-adds: {}", percent(compute / all), rates));
    } else {
      set(Bound::memory,
          fmt::format("{} % of the ops' time reads weights, each for {:.0f} token{}: {}", percent(memory / all),
                      static_cast<double>(totals.tokens) / static_cast<double>(totals.steps),
                      totals.tokens == totals.steps ? "" : "s", rates));
    }
  }
};

}  // namespace

void judge(PhaseReport& phase, const PhaseTotals& totals, const Recorder& recorder, const Subject& subject) {
  Judge judge{totals, recorder, subject, phase};
  if (phase.seconds <= 0 || phase.step_seconds <= 0) return;
  const bool found = judge.waits_outside() || judge.schedules() || judge.slow_kernel() || judge.waits_at_barriers() ||
                     judge.too_small() || judge.lacks_threads();
  if (!found) judge.roofs();
}

}  // namespace llminfer::profile
