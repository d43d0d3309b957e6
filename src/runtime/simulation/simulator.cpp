#include "runtime/simulation/simulator.h"

#include <algorithm>
#include <limits>

#include "core/fail.h"

namespace llminfer::runtime::simulation {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t events_between_looks = 1024;

double per_second(std::int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

}  // namespace

Simulator::Simulator(const TrafficSource& traffic, std::vector<std::unique_ptr<Replica>> replicas, const Tally& tally)
    : traffic_(traffic), replicas_(std::move(replicas)), wakes_(replicas_.size()), tally_(tally) {
  first_arrival_ns_ = traffic_.next().time_ns;
  timeline_.add(0, {});
}

/// An idle replica wakes at the next arrival; without one, never.
std::int64_t Simulator::wake_ns(std::size_t replica) const noexcept {
  const Wake& wake = wakes_[replica];
  if (!wake.idle) return wake.ns;
  if (!queue_.empty()) return now_;
  return traffic_.done() ? never : std::max(wake.ns, traffic_.next().time_ns);
}

std::size_t Simulator::next_replica() const noexcept {
  std::size_t first = 0;
  for (std::size_t i = 1; i < replicas_.size(); ++i) {
    if (wake_ns(i) < wake_ns(first)) first = i;
  }
  return first;
}

void Simulator::receive(std::int64_t now) {
  while (!traffic_.done() && traffic_.next().time_ns <= now) {
    queue_.push_back(traffic_.next());
    traffic_.pop();
    ++requests_;
  }
  queue_most_ = std::max(queue_most_, static_cast<std::int64_t>(queue_.size()));
}

/// The load that a replica may have: its part of all that is there, rounded up, so that none takes what an idler one
/// could take at once.
std::int64_t Simulator::share() const noexcept {
  auto all = static_cast<std::int64_t>(queue_.size());
  for (const auto& replica : replicas_) all += replica->load();
  const auto n = static_cast<std::int64_t>(replicas_.size());
  return (all + n - 1) / n;
}

/// The state that holds from now on.
void Simulator::observe(std::int64_t now) noexcept {
  timeline_.add(now, state_);
  state_ = {};
  for (const auto& replica : replicas_) {
    const double share = replica->page_share();
    page_share_most_ = std::max(page_share_most_, share);
    state_.page_share += share / static_cast<double>(replicas_.size());
    state_.running += static_cast<double>(replica->running());
    state_.queued += static_cast<double>(replica->queued());
  }
  state_.queued += static_cast<double>(queue_.size());
}

void Simulator::run(const std::function<void(std::int64_t)>& progress, const std::stop_token& stop) {
  for (std::int64_t event = 1;; ++event) {
    const std::size_t i = next_replica();
    const std::int64_t now = wake_ns(i);
    if (now == never) break;
    now_ = now;
    receive(now);
    Replica& replica = *replicas_[i];
    replica.wait_until(now);
    replica.take(queue_, share());
    timeline_.add(now, state_);
    if (replica.load() > 0) replica.step();
    observe(now);
    wakes_[i] = {replica.now_ns(), replica.load() == 0 && queue_.empty()};
    if (event % events_between_looks != 0) continue;
    if (stop.stop_requested()) core::fail(ErrorCode::cancelled, "the simulation was stopped");
    if (progress) progress(tally_.completed + tally_.failed);
  }
  timeline_.add(std::max(now_, tally_.last_end_ns), state_);
}

SimulationReport Simulator::report() const {
  SimulationReport out;
  out.requests = requests_;
  out.completed = tally_.completed;
  out.failed = tally_.failed;
  out.seconds = 1e-9 * static_cast<double>(std::max<std::int64_t>(0, tally_.last_end_ns - first_arrival_ns_));
  out.prompt_tokens = tally_.prompt_tokens;
  out.output_tokens = tally_.output_tokens;
  out.computed_tokens = tally_.computed_tokens;
  out.reused_tokens = tally_.reused_tokens;
  out.steps = tally_.steps;
  out.preemptions = tally_.preemptions;
  out.requests_per_second = per_second(out.completed, out.seconds);
  out.output_per_second = per_second(out.output_tokens, out.seconds);
  const double device_seconds = out.seconds * static_cast<double>(replicas_.size());
  out.busy = device_seconds > 0 ? 1e-9 * static_cast<double>(tally_.busy_ns) / device_seconds : 0;
  out.sequences_per_step =
      out.steps > 0 ? static_cast<double>(tally_.stepped_sequences) / static_cast<double>(out.steps) : 0;
  out.first_token = tally_.first_token.quantiles();
  out.between_tokens = tally_.between_tokens.quantiles();
  out.whole = tally_.whole.quantiles();
  out.queue_time = tally_.queue_time.quantiles();
  out.pages = static_cast<int>(replicas_.front()->pool().total_pages()[0]);
  out.page_share_mean = timeline_.mean().page_share;
  out.page_share_most = page_share_most_;
  out.queue_mean = timeline_.mean().queued;
  out.queue_most = queue_most_;
  out.moments = timeline_.moments();
  return out;
}

}  // namespace llminfer::runtime::simulation
