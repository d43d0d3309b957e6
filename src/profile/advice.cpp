// Moves that would help, each with the gain that the cost model forecasts for it: forecast after / forecast now.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profile/analysis.h"
#include "profile/step_forecast.h"

namespace llminfer::profile {
namespace {

constexpr double least_gain = 1.05;
constexpr int most_batch = 1024;
// Speculative decoding as it is usually run: four drafted tokens, of which 70 % are right, each drafted in a tenth of
// the model's own step.
constexpr int drafted = 4;
constexpr double acceptance = 0.7;
constexpr double draft_cost = 0.1;

/// The phase as one typical step.
struct Typical {
  int sequences = 1;
  int context = 0;
  int chunk = 1;
};

Typical typical(const PhaseReport& phase) {
  Typical out;
  out.sequences = std::max(1, static_cast<int>(std::lround(phase.sequences)));
  out.context = static_cast<int>(std::lround(phase.context));
  const double tokens =
      static_cast<double>(phase.tokens) / static_cast<double>(std::max<std::uint64_t>(1, phase.steps));
  out.chunk = std::max(1, static_cast<int>(std::lround(tokens / out.sequences)));
  return out;
}

class Adviser {
 public:
  Adviser(ProfileReport& report, const Recorder& recorder, const Subject& subject)
      : report_(report), model_(recorder.model()), graph_(recorder.graph()), kv_(recorder.kv()), subject_(subject) {}

  void decode(const PhaseReport& phase) {
    const Typical t = typical(phase);
    const graph::BatchShape now = decode_batch(t.sequences, t.context, kv_);
    now_ = decode_rate(model_, graph_, now);
    phase_ = &phase;
    curve(t);
    larger_batch(t);
    smaller_weights(now);
    smaller_cache(t);
    shorter_context(t);
    more_threads([&](const CostModel& other) { return decode_rate(other, graph_, now); });
    speculation(t);
    other_devices([&](const CostModel& other) { return decode_rate(other, graph_, now); });
  }

  void prefill(const PhaseReport& phase) {
    const Typical t = typical(phase);
    phase_ = &phase;
    const auto rate = [&](const CostModel& model, const backend::Graph& graph) {
      graph::BatchShape batch;
      batch.sequences.assign(static_cast<std::size_t>(t.sequences), {t.context, t.chunk});
      batch.outputs = t.sequences;
      batch.kv = kv_;
      return 1 / forecast_step(model, graph, batch).seconds;
    };
    now_ = rate(model_, graph_);
    if (phase.seconds > 0.1 * report_.time.wall && t.chunk > 1) {
      // Half of a prompt found in the cache: half of its tokens need not be computed, wherever they cost the same.
      add("keep prefixes of prompts that come again", 2, "forecast for prompts of which half is known");
    }
    more_threads([&](const CostModel& other) { return rate(other, graph_); });
    other_devices([&](const CostModel& other) { return rate(other, graph_); });
  }

 private:
  void add(std::string move, double gain, std::string why) {
    if (!(gain >= least_gain) || !std::isfinite(gain)) return;
    report_.advice.push_back({phase_->kind, std::move(move), gain, std::move(why)});
  }

  void curve(const Typical& t) {
    report_.knee = knee_of(model_, graph_, t.context, kv_);
    const int most = std::clamp(4 * std::max(report_.knee, t.sequences), 16, most_batch);
    for (int n = 1; n <= most; n *= 2) {
      report_.batches.push_back({n, decode_rate(model_, graph_, decode_batch(n, t.context, kv_))});
    }
  }

  void larger_batch(const Typical& t) {
    const int target = report_.knee > 0 ? report_.knee : most_batch;
    if (target <= t.sequences) return;
    const double gain = decode_rate(model_, graph_, decode_batch(target, t.context, kv_)) / now_;
    add(fmt::format("compute {} sequences at once instead of {}", target, t.sequences), gain,
        report_.knee > 0
            ? fmt::format("the weights are read once for all of them; from {} on arithmetic takes the time", target)
            : std::string("the weights are read once for all of them"));
  }

  void smaller_weights(const graph::BatchShape& now) {
    const double bytes = static_cast<double>(weight_bytes_of(graph_));
    for (const WeightType type : {WeightType::q8_0, WeightType::q4_0}) {
      const backend::Graph other = with_weight_type(graph_, type);
      const double then = static_cast<double>(weight_bytes_of(other));
      if (then >= bytes) continue;
      add(fmt::format("weights as {}", describe(type).name), decode_rate(model_, other, now) / now_,
          fmt::format("{:.0f} MB of weights instead of {:.0f}; the text changes a little", then / 1e6, bytes / 1e6));
    }
  }

  void smaller_cache(const Typical& t) {
    if (kv_.k == KvType::q8_0 || kv_.k == KvType::q4_0) return;
    backend::KvFormat small{KvType::q8_0, KvType::q8_0};
    add("keys and values as q8_0", decode_rate(model_, graph_, decode_batch(t.sequences, t.context, small)) / now_,
        fmt::format("{:.1f} KB a token instead of {:.1f}", static_cast<double>(kv_bytes_per_token(graph_, small)) / 1e3,
                    static_cast<double>(kv_bytes_per_token(graph_, kv_)) / 1e3));
  }

  void shorter_context(const Typical& t) {
    if (t.context < 256) return;
    add(fmt::format("half the context, or a window of {} tokens", t.context / 2),
        decode_rate(model_, graph_, decode_batch(t.sequences, t.context / 2, kv_)) / now_,
        fmt::format("each step reads {:.1f} MB of keys and values",
                    static_cast<double>(kv_bytes_per_token(graph_, kv_)) * t.context * t.sequences / 1e6));
  }

  template <class Rate>
  void more_threads(Rate&& rate) {
    const int most = std::min(subject_.cores, subject_.ceilings.at.back().threads);
    if (most <= subject_.threads) return;
    const CostModel more(subject_.ceilings, most);
    add(fmt::format("{} threads instead of {}", most, subject_.threads), rate(more) / now_,
        fmt::format("all cores read {:.1f} GB/s instead of {:.1f}", more.memory_rate() / 1e9,
                    model_.memory_rate() / 1e9));
  }

  void speculation(const Typical& t) {
    graph::BatchShape batch;
    batch.sequences.assign(static_cast<std::size_t>(t.sequences), {t.context, drafted + 1});
    batch.outputs = t.sequences * (drafted + 1);
    batch.kv = kv_;
    const double one = forecast_step(model_, graph_, decode_batch(t.sequences, t.context, kv_)).seconds;
    const double step = forecast_step(model_, graph_, batch).seconds + drafted * draft_cost * one;
    const double expected = (1 - std::pow(acceptance, drafted + 1)) / (1 - acceptance);
    add(fmt::format("speculative decoding, {} tokens drafted", drafted), t.sequences * expected / step / now_,
        fmt::format("{:.1f} tokens a step if {:.0f} % of the drafts are right and a draft costs a tenth of a step",
                    expected, 100 * acceptance));
  }

  template <class Rate>
  void other_devices(Rate&& rate) {
    for (const DeviceDescription& device : subject_.others) {
      add(fmt::format("run on {}", device.name), rate(CostModel(device)) / now_,
          fmt::format("{:.0f} GB/s of memory", device.bandwidth.value / 1e9));
    }
  }

  ProfileReport& report_;
  const CostModel& model_;
  const backend::Graph& graph_;
  const backend::KvFormat kv_;
  const Subject& subject_;
  const PhaseReport* phase_ = nullptr;
  double now_ = 1;
};

}  // namespace

void advise(ProfileReport& report, const Recorder& recorder, const Subject& subject) {
  Adviser adviser(report, recorder, subject);
  for (const PhaseReport& phase : report.phases) {
    if (phase.kind == PhaseKind::decode) adviser.decode(phase);
    if (phase.kind == PhaseKind::prefill) adviser.prefill(phase);
  }
  std::stable_sort(report.advice.begin(), report.advice.end(),
                   [](const Advice& a, const Advice& b) { return a.gain > b.gain; });
}

}  // namespace llminfer::profile
