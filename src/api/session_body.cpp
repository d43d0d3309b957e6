#include "api/session_body.h"

#include <algorithm>

#include "core/fail.h"

namespace llminfer {
inline namespace v0 {
namespace {

[[noreturn]] void throw_status(const backend::Status& status) {
  throw Exception(Error{status.code, status.message, "", 0, 0});
}

/// Turns a shortage into its Error.
void require_room(const runtime::Shortage& shortage) {
  using Kind = runtime::Shortage::Kind;
  switch (shortage.kind) {
    case Kind::none:
      return;
    case Kind::context:
      core::fail_amount(ErrorCode::context_overflow, shortage.needed, shortage.available,
                        "the history would have {} tokens, the context has room for {}", shortage.needed,
                        shortage.available);
    case Kind::pages:
      core::fail_amount(ErrorCode::out_of_pages, shortage.needed, shortage.available, "{} pages needed, {} free",
                        shortage.needed, shortage.available);
    case Kind::device:
      core::fail(ErrorCode::device_lost, "the device could not copy a page");
  }
}

}  // namespace

Session::Body::Body(Model model_in, std::shared_ptr<runtime::Pool> pool_in, int context, runtime::Paging paging)
    : model(std::move(model_in)),
      pool(std::move(pool_in)),
      rows(model.body()->host, pool->graph().vocabulary, 1),
      sampler(pool->graph().vocabulary, model.body()->host.get()) {
  sequence = std::make_unique<runtime::Sequence>(pool, context, paging);
  plan_.items.reserve(1);
}

Session::Body::~Body() {
  const runtime::PoolLock lock(*pool);
  sequence.reset();
}

backend::Status Session::Body::run(int count, runtime::RowsWanted wanted, const backend::StepOutputs& outputs,
                                   const std::stop_token& stop, backend::StopFlag& flag) {
  const profile::PartScope part(recorder(), profile::Part::scheduling, profile::Part::outside);
  const std::stop_callback on_stop(stop, [&flag] { flag.request(); });
  plan_.items.assign(1, {sequence.get(), count, wanted});
  const runtime::PoolLock lock(*pool);
  require_room(sequence->reserve(sequence->computed() + count));
  return pool->executor().run(*pool, plan_, outputs, flag, recorder());
}

Session::Body::End Session::Body::compute(const std::stop_token& stop, backend::StopFlag& flag,
                                          std::optional<Clock::time_point> deadline) {
  if (logits_current()) return End::done;
  const End end = compute_with(rows.outputs(0), stop, flag, deadline);
  if (end == End::done) logits_at = sequence->size();
  return end;
}

Session::Body::End Session::Body::compute_for(const runtime::Generation& generation, const std::stop_token& stop,
                                              backend::StopFlag& flag, std::optional<Clock::time_point> deadline,
                                              runtime::ComputedRow& row) {
  const int top = logits_current() ? 0 : generation.wants_top_alone();
  End end = End::done;
  if (top == 0) {
    end = compute(stop, flag, deadline);
  } else {
    backend::StepOutputs outputs = rows.outputs(top);
    logits_at = 0;
    if (generation.forbids()) {
      const std::span<std::uint32_t> allowed = rows.allowed(1);
      generation.fill_allowed(allowed);
      outputs.allowed = allowed;
    }
    end = compute_with(outputs, stop, flag, deadline);
  }
  if (end == End::done) row = rows.computed(0, top);
  return end;
}

/// `outputs`: of the last token alone.
Session::Body::End Session::Body::compute_with(const backend::StepOutputs& outputs, const std::stop_token& stop,
                                               backend::StopFlag& flag, std::optional<Clock::time_point> deadline) {
  if (sequence->computed() == sequence->size()) {  // computed, but its logits are gone
    const runtime::PoolLock lock(*pool);
    require_room(sequence->recompute_last());
  }
  while (sequence->computed() < sequence->size()) {
    if (stop.stop_requested() || flag.requested()) return End::cancelled;
    if (deadline && Clock::now() >= *deadline) return End::deadline;
    const int left = sequence->size() - sequence->computed();
    const int count = std::min(left, pool->limits().tokens);
    logits_at = 0;
    const auto wanted = count == left ? runtime::RowsWanted::last : runtime::RowsWanted::none;
    const backend::Status status = run(count, wanted, outputs, stop, flag);
    if (!status.ok() && status.code == ErrorCode::cancelled) return End::cancelled;
    if (!status.ok()) throw_status(status);
  }
  return End::done;
}

void Session::Body::score_chunk(int count, const std::stop_token& stop) {
  backend::StopFlag flag;
  logits_at = 0;
  const backend::Status status = run(count, runtime::RowsWanted::all, rows.outputs(0), stop, flag);
  if (!status.ok()) throw_status(status);
}

void Session::Body::append(std::span<const Token> tokens) {
  for (const Token t : tokens) {
    if (t < 0 || t >= pool->graph().vocabulary) {
      core::fail(ErrorCode::invalid_argument, "token {} is outside the vocabulary of {}", t, pool->graph().vocabulary);
    }
  }
  if (sequence->paging() == runtime::Paging::at_step) {  // touches no page: need not wait for a step
    require_room(sequence->append(tokens));
    return;
  }
  const runtime::PoolLock lock(*pool);
  require_room(sequence->append(tokens));
}

void Session::Body::rewind(int tokens) {
  if (tokens < 0 || tokens > sequence->size()) {
    core::fail(ErrorCode::invalid_argument, "cannot go back to {} tokens of a history of {}", tokens, sequence->size());
  }
  const runtime::PoolLock lock(*pool);
  sequence->rewind(tokens);
  sequence->trim();
}

void Session::Body::restore_pages(std::int32_t computed, std::span<const std::int32_t> given_back) {
  const runtime::PoolLock lock(*pool);
  require_room(sequence->restore(computed, given_back));
}

void Session::Body::require_idle() const {
  if (generating) core::fail(ErrorCode::invalid_argument, "the session is in use by a Generator that has not ended");
}

bool Session::Body::logits_current() const noexcept {
  return logits_at > 0 && logits_at == sequence->size() && sequence->computed() == logits_at;
}

std::span<const float> Session::Body::logits() const noexcept {
  if (!logits_current()) return {};
  return rows.logits(0);
}

}  // namespace v0
}  // namespace llminfer
