#include "runtime/simulation/replica.h"

#include <algorithm>

#include "core/fail.h"

namespace llminfer::runtime::simulation {
namespace {

constexpr int most_fruitless = 1000;  // plans in a row that computed nothing

}  // namespace

Replica::Replica(ReplicaOptions options, Tally& tally)
    : pool_(std::move(options.pool)),
      clock_(std::move(options.clock)),
      mode_(options.mode),
      tally_(tally),
      chosen_(static_cast<std::size_t>(options.max_sequences)),
      scores_(static_cast<std::size_t>(options.max_sequences)) {
  limits_.step_tokens = options.step_tokens;
  limits_.max_sequences = options.max_sequences;
  limits_.total_pages = pool_->total_pages();
  const auto most = static_cast<std::size_t>(options.max_sequences);
  live_.reserve(most);
  views_.reserve(most);
  schedule_.reserve(most);
  step_.items.reserve(most);
  stepped_.reserve(most);
}

double Replica::page_share() const noexcept {
  const auto total = static_cast<double>(limits_.total_pages[0]);
  return total > 0 ? (total - static_cast<double>(pool_->free_pages()[0])) / total : 0;
}

/// Whether the batch still has room for the request's last token; `pages`: what its requests need at their ends.
bool Replica::fits(const Arrival& arrival, std::int64_t& pages) const noexcept {
  const std::int64_t tokens = std::int64_t{arrival.prompt} + arrival.output;
  pages += (tokens + pool_->page_size() - 1) / pool_->page_size();
  return pages <= limits_.total_pages[0];
}

void Replica::take(std::deque<Arrival>& queue, std::int64_t most) {
  most = std::min<std::int64_t>(most, limits_.max_sequences);
  if (mode_ == BatchMode::fixed && !live_.empty()) return;
  std::int64_t pages = 0;
  double least = 0;  // who comes later gets no more than the others: their shares count from now on
  for (const Request& request : live_) {
    least = &request == live_.data() ? request.view.served : std::min(least, request.view.served);
  }
  while (!queue.empty() && load() < most) {
    const Arrival& arrival = queue.front();
    if (mode_ == BatchMode::fixed && !fits(arrival, pages) && !live_.empty()) return;
    Request request;
    request.sequence = std::make_unique<Sequence>(pool_, arrival.prompt + arrival.output, Paging::at_step);
    fill_prompt(arrival, pool_->graph().vocabulary, prompt_);
    static_cast<void>(request.sequence->append(prompt_));  // within its context
    request.arrival = arrival;
    request.view.arrival = arrivals_++;
    request.view.arrival_step = steps_;
    request.view.served = least;
    live_.push_back(std::move(request));
    ++queued_;
    queue.pop_front();
  }
}

void Replica::step() {
  plan();
  apply_plan();
  build_step();
  if (!step_.items.empty()) {
    run_step();
    fruitless_ = 0;
  } else if (++fruitless_ > most_fruitless) {
    core::fail(ErrorCode::out_of_pages, "the scheduler computes none of {} requests with {} of {} pages free",
               live_.size(), pool_->free_pages()[0], limits_.total_pages[0]);
  }
  remove_ended();
}

void Replica::plan() noexcept {
  views_.clear();
  for (Request& request : live_) {
    ScheduledRequest& view = request.view;
    view.ready = true;
    view.tokens = request.sequence->size();
    view.missing = request.sequence->missing_pages(view.tokens);
    view.computed = request.sequence->computed();
    view.pages = request.sequence->pages();
    if (!view.running && view.computed == 0) view.missing -= request.sequence->prefix_in_use();
    views_.push_back(view);
  }
  schedule(limits_, {views_, pool_->free_pages(), steps_}, schedule_);
}

void Replica::apply_plan() noexcept {
  for (const std::int32_t i : schedule_.preempt) {
    Request& request = live_[static_cast<std::size_t>(i)];
    request.sequence->evict();
    tally_.preemptions += request.view.running ? 1 : 0;
    running_ -= request.view.running ? 1 : 0;
    request.view.running = false;
  }
  for (const std::int32_t i : schedule_.admit) {
    Request& request = live_[static_cast<std::size_t>(i)];
    request.view.running = true;
    ++running_;
    const std::int32_t reused = request.sequence->adopt_prefix();
    request.charged = std::max(request.charged, reused);
    if (request.started) continue;
    request.started = true;
    --queued_;
    tally_.reused_tokens += reused;
    tally_.queue_time.add(now_ns() - request.arrival.time_ns);
  }
  for (const std::int32_t i : schedule_.fail) {
    Request& request = live_[static_cast<std::size_t>(i)];
    running_ -= request.view.running ? 1 : 0;
    queued_ -= request.started ? 0 : 1;
    request.sequence.reset();
    ++tally_.failed;
  }
}

void Replica::build_step() {
  step_.items.clear();
  stepped_.clear();
  for (const Schedule::Item& item : schedule_.items) {
    Sequence& sequence = *live_[static_cast<std::size_t>(item.request)].sequence;
    const Shortage shortage = sequence.reserve(sequence.size());
    if (shortage.kind == Shortage::Kind::device) core::fail(ErrorCode::device_lost, "the device could not copy a page");
    if (shortage.kind != Shortage::Kind::none) continue;              // the next plan sees the true numbers
    const std::int32_t left = sequence.size() - sequence.computed();  // less than planned where a prefix was found
    const std::int32_t count = std::min(item.count, left);
    step_.items.push_back({&sequence, count, count == left ? RowsWanted::last : RowsWanted::none});
    stepped_.push_back(static_cast<std::size_t>(item.request));
  }
}

void Replica::run_step() {
  backend::StepOutputs outputs;
  outputs.kind = backend::OutputKind::arg_max;
  outputs.ids = chosen_;
  outputs.scores = scores_;
  Span span;
  const backend::Status status = pool_->executor().run(*pool_, step_, outputs, stop_, &span);
  if (!status.ok()) core::fail(status.code, "{}", status.message);
  ++steps_;
  ++tally_.steps;
  tally_.stepped_sequences += static_cast<std::int64_t>(step_.items.size());
  tally_.busy_ns += span.ns;
  std::size_t row = 0;
  for (std::size_t k = 0; k < step_.items.size(); ++k) {
    const bool wanted = step_.items[k].rows == RowsWanted::last;
    commit(live_[stepped_[k]], step_.items[k], wanted ? chosen_[row] : Token{-1});
    row += wanted ? 1 : 0;
  }
}

/// Counts what an item computed; with a chosen token (not -1) the answer grows by it.
void Replica::commit(Request& request, const StepItem& item, Token chosen) noexcept {
  tally_.computed_tokens += item.count;
  const std::int32_t computed = request.sequence->computed();
  if (computed > request.charged) {
    request.view.served += computed - request.charged;
    request.charged = computed;
  }
  if (chosen < 0) return;
  const std::int64_t now = now_ns();
  ++request.produced;
  if (request.produced == 1) {
    tally_.first_token.add(now - request.arrival.time_ns);
  } else {
    tally_.between_tokens.add(now - request.last_token_ns);
  }
  request.last_token_ns = now;
  if (request.produced < request.arrival.output) {
    static_cast<void>(request.sequence->append(std::span<const Token>(&chosen, 1)));  // within its context
    return;
  }
  ++tally_.completed;
  tally_.prompt_tokens += request.arrival.prompt;
  tally_.output_tokens += request.produced;
  tally_.whole.add(now - request.arrival.time_ns);
  tally_.last_end_ns = std::max(tally_.last_end_ns, now);
  --running_;
  request.sequence.reset();
}

void Replica::remove_ended() noexcept {
  for (std::size_t i = 0; i < live_.size();) {
    if (live_[i].sequence != nullptr) {
      ++i;
      continue;
    }
    if (i + 1 < live_.size()) live_[i] = std::move(live_.back());
    live_.pop_back();
  }
}

}  // namespace llminfer::runtime::simulation
