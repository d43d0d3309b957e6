#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <llminfer/batch_stats.hpp>

#include "api/guard.h"
#include "core/fail.h"

namespace llminfer {
inline namespace v0 {

std::chrono::nanoseconds DurationHistogram::quantile(double q) const noexcept {
  const std::uint64_t all = count();
  if (all == 0) return {};
  const double rank = std::clamp(q, 0.0, 1.0) * static_cast<double>(all);
  double before = 0;
  for (int i = 0; i < buckets; ++i) {
    const auto here = static_cast<double>(counts[static_cast<std::size_t>(i)]);
    if (here > 0 && before + here >= rank) {
      const double low = i == 0 ? 0 : static_cast<double>(upper(i - 1).count());
      const double high = i + 1 < buckets ? static_cast<double>(upper(i).count()) : low;
      return std::chrono::nanoseconds(static_cast<std::int64_t>(low + (high - low) * (rank - before) / here));
    }
    before += here;
  }
  return upper(buckets - 2);
}

namespace {

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

bool is_metric_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':'; };
  const auto fits = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  return !name.empty() && letter(name.front()) && std::all_of(name.begin(), name.end(), fits);
}

/// Writes metrics one after the other.
class Exposition {
 public:
  Exposition(std::string_view prefix, std::string_view labels) : prefix_(prefix), labels_(labels) {}

  template <class Value>
  void gauge(std::string_view name, std::string_view help, Value value) {
    single("gauge", name, help, value);
  }
  template <class Value>
  void counter(std::string_view name, std::string_view help, Value value) {
    single("counter", name, help, value);
  }
  void histogram(std::string_view name, std::string_view help, const DurationHistogram& h) {
    head("histogram", name, help);
    const std::string_view comma = labels_.empty() ? "" : ",";
    std::uint64_t all = 0;
    for (int i = 0; i + 1 < DurationHistogram::buckets; ++i) {
      all += h.counts[static_cast<std::size_t>(i)];
      put("{}_{}_bucket{{{}{}le=\"{}\"}} {}\n", prefix_, name, labels_, comma, seconds(DurationHistogram::upper(i)),
          all);
    }
    all += h.counts.back();
    put("{}_{}_bucket{{{}{}le=\"+Inf\"}} {}\n", prefix_, name, labels_, comma, all);
    put("{}_{}_sum{} {}\n", prefix_, name, braces(), seconds(h.sum));
    put("{}_{}_count{} {}\n", prefix_, name, braces(), all);
  }

  std::string text{};

 private:
  template <class Value>
  void single(std::string_view type, std::string_view name, std::string_view help, Value value) {
    head(type, name, help);
    put("{}_{}{} {}\n", prefix_, name, braces(), value);
  }
  void head(std::string_view type, std::string_view name, std::string_view help) {
    put("# HELP {0}_{1} {2}\n# TYPE {0}_{1} {3}\n", prefix_, name, help, type);
  }
  std::string braces() const { return labels_.empty() ? std::string() : fmt::format("{{{}}}", labels_); }
  template <class... Args>
  void put(fmt::format_string<const Args&...> format, const Args&... args) {
    fmt::format_to(std::back_inserter(text), format, args...);
  }

  std::string_view prefix_;
  std::string_view labels_;
};

void put_moment(Exposition& out, const BatchStats& s) {
  out.gauge("requests_queued", "Requests that wait for their first step", s.queued);
  out.gauge("requests_running", "Requests that are computed now", s.running);
  out.gauge("requests_preempted", "Requests that wait after they lost their pages", s.preempted);
  out.gauge("pages_used", "Pages of keys and values in use, cached ones included", s.pages_used);
  out.gauge("pages_cached", "Pages kept by the prefix cache alone", s.pages_cached);
  out.gauge("pages", "Pages of the pool", s.pages_total);
  out.gauge("generated_tokens_per_second", "Tokens chosen a second over the last ten seconds", s.generated_per_second);
  out.gauge("computed_tokens_per_second", "Tokens computed a second over the last ten seconds", s.computed_per_second);
}

void put_counts(Exposition& out, const BatchStats& s) {
  out.counter("steps_total", "Steps of the batch", s.steps);
  out.counter("prefill_tokens_total", "Tokens computed in chunks", s.prefill_tokens);
  out.counter("decode_tokens_total", "Tokens computed one a step", s.decode_tokens);
  out.counter("generated_tokens_total", "Tokens chosen", s.generated_tokens);
  out.counter("preemptions_total", "Sequences that lost their pages to others", s.preemptions);
  out.counter("swapped_out_total", "Preemptions whose pages were kept in other memory", s.swapped_out);
  out.counter("swapped_in_total", "Sequences whose pages came back from other memory", s.swapped_in);
  out.counter("requests_submitted_total", "Requests taken in", s.submitted);
  out.counter("requests_completed_total", "Requests that came to an end of their own", s.completed);
  out.counter("requests_cancelled_total", "Requests that were cancelled", s.cancelled);
  out.counter("requests_failed_total", "Requests that ended with an error", s.failed);
  out.counter("prefix_hits_total", "Requests that found computed pages of their history", s.prefix_hits);
  out.counter("reused_tokens_total", "Tokens that did not have to be computed for it", s.reused_tokens);
  out.counter("scheduling_seconds_total", "Time spent on planning, pages and queues", seconds(s.scheduling));
  out.counter("sampling_seconds_total", "Time spent on choosing tokens and in callbacks", seconds(s.sampling));
  out.counter("up_seconds_total", "Time since start", seconds(s.up));
}

}  // namespace

Result<std::string> to_prometheus(const BatchStats& stats, std::string_view prefix, std::string_view labels) {
  return api::guard("to_prometheus", [&] {
    if (!is_metric_name(prefix)) core::fail(ErrorCode::invalid_argument, "prefix '{}' is no metric name", prefix);
    Exposition out(prefix, labels);
    put_moment(out, stats);
    put_counts(out, stats);
    out.histogram("queue_seconds", "From submission to the first step", stats.queue_time);
    out.histogram("time_to_first_token_seconds", "From submission to the first token", stats.time_to_first_token);
    out.histogram("time_between_tokens_seconds", "Between two tokens of a request", stats.time_between_tokens);
    out.histogram("step_seconds", "A step of the device", stats.step_time);
    return std::move(out.text);
  });
}

}  // namespace v0
}  // namespace llminfer
