#include "report.h"

#include <algorithm>

#include "../common/format.h"
#include "chart.h"

namespace examples {
namespace {

using llminfer::Quantiles;
using llminfer::SimulationReport;
using json = nlohmann::ordered_json;

/// Milliseconds with three digits, in five places.
std::string ms(double seconds) {
  const double value = 1e3 * seconds;
  if (value >= 1e6) return print("%.0fs", seconds);
  return value >= 99.95 ? print("%.0f", value) : value >= 9.995 ? print("%.1f", value) : print("%.2f", value);
}

std::string three(const Quantiles& q) {
  return print("%7s %7s %7s", ms(q.p50).c_str(), ms(q.p95).c_str(), ms(q.p99).c_str());
}

json to_json(const Quantiles& q) {
  return {{"mean", q.mean}, {"p50", q.p50}, {"p95", q.p95}, {"p99", q.p99}, {"most", q.most}};
}

/// Runs of each policy, in order of first appearance.
std::vector<std::vector<const SimulatedRun*>> by_policy(const std::vector<SimulatedRun>& runs) {
  std::vector<std::vector<const SimulatedRun*>> out;
  for (const SimulatedRun& run : runs) {
    const auto same = [&](const auto& list) { return list.front()->policy == run.policy; };
    auto list = std::find_if(out.begin(), out.end(), same);
    if (list == out.end()) list = out.emplace(out.end());
    list->push_back(&run);
  }
  return out;
}

template <class Value>
Chart over_rates(const std::vector<SimulatedRun>& runs, std::string title, std::string y_label, bool log_y,
                 Value value) {
  Chart chart;
  chart.title = std::move(title);
  chart.x_label = "arrivals a second";
  chart.y_label = std::move(y_label);
  chart.log_y = log_y;
  for (const auto& list : by_policy(runs)) {
    ChartSeries series{list.front()->policy, {}, true};
    for (const SimulatedRun* run : list) series.points.emplace_back(run->rate, value(run->report));
    chart.series.push_back(std::move(series));
  }
  return chart;
}

template <class Value>
Chart over_time(const std::vector<SimulatedRun>& runs, std::string title, std::string y_label, Value value) {
  double last = 0;
  for (const SimulatedRun& run : runs) last = std::max(last, run.report.seconds);
  const double unit = last > 7200 ? 3600 : last > 300 ? 60 : 1;
  Chart chart;
  chart.title = std::move(title);
  chart.x_label = unit > 3000 ? "hours" : unit > 50 ? "minutes" : "seconds";
  chart.y_label = std::move(y_label);
  for (const SimulatedRun& run : runs) {
    ChartSeries series{run.policy, {}, false};
    for (const auto& m : run.report.moments) series.points.emplace_back(m.begin / unit, value(m));
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart quantiles(const std::vector<SimulatedRun>& runs, std::string title, Quantiles SimulationReport::*field) {
  Chart chart;
  chart.title = std::move(title);
  chart.y_label = "seconds";
  chart.log_y = true;
  chart.x_ticks = {{0, "median"}, {1, "95 %"}, {2, "99 %"}, {3, "worst"}};
  for (const SimulatedRun& run : runs) {
    const Quantiles& q = run.report.*field;
    chart.series.push_back({run.policy, {{0, q.p50}, {1, q.p95}, {2, q.p99}, {3, q.most}}, true});
  }
  return chart;
}

}  // namespace

std::string table(const std::vector<SimulatedRun>& runs) {
  std::size_t name = 6;
  for (const SimulatedRun& run : runs) name = std::max(name, run.policy.size());
  const int width = static_cast<int>(name);
  std::string out =
      print("%-*s  %7s %7s %8s %5s %5s  %-23s  %-23s  %-23s  %5s %8s %8s\n", width, "", "", "", "output", "", "seqs",
            "  first token, ms", "  between tokens, ms", "  whole request, ms", "pages", "", "longest");
  out += print("%-*s  %7s %7s %8s %5s %5s", width, "policy", "rate/s", "done/s", "tokens/s", "busy", "/step");
  for (int i = 0; i < 3; ++i) out += print("  %7s %7s %7s", "p50", "p95", "p99");
  out += print("  %5s %8s %8s\n", "used", "preempt", "queue");
  for (const SimulatedRun& run : runs) {
    const SimulationReport& r = run.report;
    out += print("%-*s  %7.4g %7.4g %8.1f %4.0f%% %5.1f", width, run.policy.c_str(), run.rate, r.requests_per_second,
                 r.output_per_second, 100 * r.busy, r.sequences_per_step);
    for (const Quantiles* q : {&r.first_token, &r.between_tokens, &r.whole}) out += "  " + three(*q);
    out += print("  %4.0f%% %8lld %8lld\n", 100 * r.page_share_mean, static_cast<long long>(r.preemptions),
                 static_cast<long long>(r.queue_most));
    if (r.reused_tokens > 0) {
      out += print("%-*s  %.0f %% of the prompts' tokens came from the prefix cache\n", width, "",
                   100 * static_cast<double>(r.reused_tokens) / static_cast<double>(r.prompt_tokens));
    }
    if (r.failed > 0) {
      out += print("%-*s  %lld of %lld requests failed: the pages cannot hold them\n", width, "",
                   static_cast<long long>(r.failed), static_cast<long long>(r.requests));
    }
  }
  return out;
}

json to_json(const SimulatedRun& run) {
  const SimulationReport& r = run.report;
  return {{"policy", run.policy},
          {"rate", run.rate},
          {"requests", r.requests},
          {"completed", r.completed},
          {"failed", r.failed},
          {"seconds", r.seconds},
          {"prompt_tokens", r.prompt_tokens},
          {"output_tokens", r.output_tokens},
          {"computed_tokens", r.computed_tokens},
          {"reused_tokens", r.reused_tokens},
          {"steps", r.steps},
          {"preemptions", r.preemptions},
          {"requests_per_s", r.requests_per_second},
          {"output_tokens_per_s", r.output_per_second},
          {"busy", r.busy},
          {"sequences_per_step", r.sequences_per_step},
          {"first_token_s", to_json(r.first_token)},
          {"between_tokens_s", to_json(r.between_tokens)},
          {"whole_s", to_json(r.whole)},
          {"queue_time_s", to_json(r.queue_time)},
          {"pages", r.pages},
          {"page_share_mean", r.page_share_mean},
          {"page_share_most", r.page_share_most},
          {"queue_mean", r.queue_mean},
          {"queue_most", r.queue_most}};
}

std::string svg(const std::string& title, const std::vector<std::string>& lines,
                const std::vector<SimulatedRun>& runs) {
  const bool one_rate = std::all_of(runs.begin(), runs.end(), [&](const auto& r) {
    return !(r.rate < runs.front().rate || r.rate > runs.front().rate);
  });
  std::vector<Chart> charts;
  if (one_rate) {
    charts.push_back(quantiles(runs, "Time to the first token", &SimulationReport::first_token));
    charts.push_back(quantiles(runs, "Time between tokens", &SimulationReport::between_tokens));
    charts.push_back(over_time(runs, "Pages in use", "% of all", [](const auto& m) { return 100 * m.page_share; }));
    charts.push_back(over_time(runs, "Requests that wait", "requests", [](const auto& m) { return m.queued; }));
  } else {
    charts.push_back(over_rates(runs, "Time to the first token, 95 %", "seconds", true,
                                [](const auto& r) { return r.first_token.p95; }));
    charts.push_back(over_rates(runs, "Time between tokens, 99 %", "seconds", true,
                                [](const auto& r) { return r.between_tokens.p99; }));
    charts.push_back(
        over_rates(runs, "Output", "tokens a second", false, [](const auto& r) { return r.output_per_second; }));
    charts.push_back(over_rates(runs, "Pages in use, mean", "% of all", false,
                                [](const auto& r) { return 100 * r.page_share_mean; }));
  }
  return svg_page(title, lines, charts);
}

}  // namespace examples
