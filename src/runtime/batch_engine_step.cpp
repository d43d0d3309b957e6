// One step: plan, reserve, run, choose tokens, hand out. Without the mutex.
#include <algorithm>

#include "core/guard.h"
#include "runtime/batch_engine.h"
#include "runtime/batch_engine_parts.h"

namespace llminfer::runtime {

namespace {

/// Its next token is to be computed.
bool wants_step(const BatchRequest& request) noexcept {
  if (request.generation.finished() || request.generation.front() != nullptr || request.leader != nullptr) return false;
  return !request.beams || request.beams->state.wants_row(request.beam);
}

}  // namespace

void BatchEngine::plan() noexcept {
  pool_->give_way();
  const std::lock_guard<std::mutex> lock(pool_->mutex());
  const Clock::time_point start = clock_->now();
  views_.clear();
  for (const auto& request : live_) {
    ScheduledRequest& view = request->view;
    view.ready = wants_step(*request);
    if (view.ready) request->sequence.forget_last();  // its logits are wanted
    view.caller_served = request->caller->served;
    view.tokens = request->sequence.size();
    view.missing = request->sequence.missing_pages(view.tokens);
    // After missing_pages(): a way back beyond its window makes a history uncomputed.
    view.computed = request->swapped.computed == 0 ? request->sequence.computed()
                                                   : std::min(request->swapped.computed, view.tokens - 1);
    view.pages = request->sequence.pages();
    views_.push_back(view);
  }
  expect_prefixes();
  const PageCounts free = least(pool_->free_pages() + parking_.pages(), limits_.total_pages);
  schedule(limits_, {views_, free, counts_.steps}, schedule_);
  apply_plan(start);
  build_step();
  count_pages(counts_);
  counts_.scheduling += elapsed(start, clock_->now());
}

void BatchEngine::apply_plan(Clock::time_point now) noexcept {
  for (const std::int32_t i : schedule_.preempt) {
    BatchRequest& request = *live_[static_cast<std::size_t>(i)];
    if (!swap_out(request)) request.sequence.evict();
    counts_.preemptions += request.view.running ? 1 : 0;
    request.view.running = false;
  }
  for (const std::int32_t i : schedule_.admit) {
    BatchRequest& request = *live_[static_cast<std::size_t>(i)];
    request.view.running = true;
    if (request.swapped.computed > 0) swap_in(request);
    if (request.sequence.computed() == 0) adopt_prefix(request);
    if (!request.started && request.counts()) counts_.queue_time.add(elapsed(request.start, now));
    request.started = true;
  }
  for (const std::int32_t i : schedule_.fail) {
    BatchRequest& request = *live_[static_cast<std::size_t>(i)];
    end_with(request, make_error(ErrorCode::out_of_pages, "the pool has no pages for the sequence, even alone",
                                 request.view.missing.most(), pool_->free_pages()[0]));
  }
}

/// Takes the pages of each item. One that gets none (others hold pages that this plan counted on) sits out; the next
/// plan sees the true numbers.
void BatchEngine::build_step() noexcept {
  step_.items.clear();
  stepped_.clear();
  for (const Schedule::Item& item : schedule_.items) {
    const auto index = static_cast<std::size_t>(item.request);
    Sequence& sequence = live_[index]->sequence;
    const Shortage::Kind shortage = reserve(sequence);
    if (shortage == Shortage::Kind::device) {
      end_with(*live_[index], make_error(ErrorCode::device_lost, "the device could not copy a page"));
    }
    if (shortage != Shortage::Kind::none) continue;
    const std::int32_t left = sequence.size() - sequence.computed();  // less than planned where a prefix was found
    const std::int32_t count = std::min(item.count, left);
    const bool last = count == left;
    step_.items.push_back({&sequence, count, last ? RowsWanted::last : RowsWanted::none});
    stepped_.push_back(index);
  }
}

Shortage::Kind BatchEngine::reserve(Sequence& sequence) noexcept {
  for (;;) {
    const Shortage::Kind shortage = sequence.reserve(sequence.size()).kind;
    if (shortage != Shortage::Kind::pages || !parking_.reclaim()) return shortage;
  }
}

void BatchEngine::run_step() noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    step_live_ = 0;
    for (const std::size_t i : stepped_) {
      live_[i]->in_step = !live_[i]->cancelled;
      step_live_ += live_[i]->in_step ? 1 : 0;
    }
    step_stop_.clear();
    if (stopping_ || step_live_ == 0) return;
  }
  const int top = wants_top_alone();
  backend::StepOutputs outputs = rows_.outputs(top);
  if (top > 0) outputs.allowed = fill_allowed();
  backend::Status status;
  Clock::time_point now;
  {
    const std::lock_guard<std::mutex> lock(pool_->mutex());
    const Clock::time_point start = clock_->now();
    status = pool_->executor().run(*pool_, step_, outputs, step_stop_, recorder_.get());
    now = clock_->now();
    counts_.step_time.add(elapsed(start, now));
    const std::int32_t tokens = step_.tokens();
    if (status.ok() && tokens > 2 * static_cast<std::int32_t>(step_.items.size())) {
      swap_cost_.saw_prefill(tokens, elapsed(start, now));
    }
  }
  ++counts_.steps;
  if (!status.ok() && status.code == ErrorCode::cancelled) return;
  std::size_t row = 0;
  const profile::PartScope sampling(recorder_.get(), profile::Part::sampling, profile::Part::scheduling);
  for (std::size_t k = 0; k < stepped_.size(); ++k) {
    if (!status.ok()) {
      end_with(*live_[stepped_[k]], make_error(status.code, status.message));
      continue;
    }
    const bool wanted = step_.items[k].rows == RowsWanted::last;
    commit(k, wanted ? rows_.computed(row, top) : ComputedRow{}, now);
    row += wanted ? 1 : 0;
  }
  computed_.add(now, status.ok() ? static_cast<std::uint64_t>(step_.tokens()) : 0);
  counts_.sampling += elapsed(now, clock_->now());
}

/// How many best logits are all that any row of this step is wanted for; 0 where others are.
int BatchEngine::wants_top_alone() const noexcept {
  int top = 0;
  for (std::size_t k = 0; k < stepped_.size(); ++k) {
    if (step_.items[k].rows == RowsWanted::none) continue;
    const BatchRequest& request = *live_[stepped_[k]];
    const int wanted = request.generation.wants_top_alone();
    if (request.beams || request.followers != nullptr || wanted == 0) return 0;
    top = std::max(top, wanted);
  }
  return top;
}

/// The rows' allowed tokens; empty where all are.
std::span<const std::uint32_t> BatchEngine::fill_allowed() noexcept {
  bool any = false;
  std::size_t rows = 0;
  for (std::size_t k = 0; k < stepped_.size(); ++k) {
    if (step_.items[k].rows == RowsWanted::none) continue;
    any = any || live_[stepped_[k]]->generation.forbids();
    ++rows;
  }
  if (!any) return {};
  const std::span<std::uint32_t> allowed = rows_.allowed(rows);
  const std::size_t words = allowed.size() / rows;
  std::size_t row = 0;
  for (std::size_t k = 0; k < stepped_.size(); ++k) {
    if (step_.items[k].rows == RowsWanted::none) continue;
    live_[stepped_[k]]->generation.fill_allowed(allowed.subspan(row++ * words, words));
  }
  return allowed;
}

/// Counts what an item computed and goes on from its logits if its history is complete.
void BatchEngine::commit(std::size_t item, const ComputedRow& row, Clock::time_point now) noexcept {
  BatchRequest& request = *live_[stepped_[item]];
  const std::int32_t computed = request.sequence.computed();
  (step_.items[item].count == 1 ? counts_.decode_tokens : counts_.prefill_tokens) +=
      static_cast<std::uint64_t>(step_.items[item].count);
  if (computed > request.charged) {
    request.view.served += (computed - request.charged) / request.weight;
    request.caller->served += (computed - request.charged) / request.caller_weight;
    request.charged = computed;
  }
  if (row.empty()) return;
  if (request.beams) {
    take_beam_row(request, row.logits, now);
    return;
  }
  fork_followers(request, row, now);
  choose(request, row, now);
}

/// Takes the next token, and hands out what may go.
void BatchEngine::choose(BatchRequest& request, const ComputedRow& row, Clock::time_point now) noexcept {
  const std::int32_t before = request.sequence.size();
  Result<void> stepped =
      core::guard("Batcher", [&] { return request.generation.step(row, sampler_, request.sequence); });
  if (!stepped) {
    end_with(request, std::move(stepped).error());
    return;
  }
  if (request.sequence.size() > before) count_token(request, now);
  if (request.sink) hand_out(request);
}

void BatchEngine::count_token(BatchRequest& request, Clock::time_point now) noexcept {
  ++counts_.generated_tokens;
  generated_.add(now, 1);
  if (!request.had_token) counts_.time_to_first_token.add(elapsed(request.start, now));
  if (request.last_token) counts_.time_between_tokens.add(elapsed(*request.last_token, now));
  request.had_token = true;
  request.last_token = now;
}

/// Calls the client with all pieces that may go out. Its exception is its own request's error.
void BatchEngine::hand_out(BatchRequest& request) noexcept {
  while (const Generation::Waiting* front = request.generation.front()) {
    const Piece piece = request.generation.piece_of(*front);
    const Result<bool> more = core::guard("Batcher", [&] {
      const profile::PartScope outside(recorder_.get(), profile::Part::outside, profile::Part::sampling);
      return request.sink->on_piece(piece);
    });
    request.generation.pop_front();
    request.first_token_out = true;
    ++request.outcome.new_tokens;
    if (!more) {
      end_with(request, make_error(ErrorCode::callback_failed, more.error().message.c_str()));
      return;
    }
    if (!*more) {
      end_early(request, Finish::cancelled);
      return;
    }
  }
}

}  // namespace llminfer::runtime
