#include <algorithm>
#include <array>
#include <llminfer/generator.hpp>

#include "api/generator_body.h"
#include "api/guard.h"
#include "core/fail.h"

namespace llminfer {
inline namespace v0 {

runtime::GenerationSetup generation_setup(const Session::Body& session) {
  runtime::GenerationSetup setup;
  setup.tokenizer = &session.model.tokenizer().body();
  setup.vocabulary = session.pool->graph().vocabulary;
  setup.context = session.sequence->context();
  setup.memory = session.model.body()->host.get();
  return setup;
}

const GenerateOptions& checked(const GenerateOptions& options, const Session::Body& session) {
  runtime::validate(options, generation_setup(session));
  return options;
}

const char* to_string(Finish finish) noexcept {
  static constexpr std::array<const char*, 8> names = {"end_of_text", "stop_token",   "stop_string",
                                                       "length",      "context_full", "constraint_complete",
                                                       "deadline",    "cancelled"};
  const auto index = static_cast<std::size_t>(finish);
  return index < names.size() ? names[index] : "unknown";
}

SoloGenerator::SoloGenerator(std::shared_ptr<Session::Body> session, const GenerateOptions& options)
    : session_(std::move(session)),
      generation_(checked(options, *session_), generation_setup(*session_)),
      deadlines_(options.deadlines) {
  outcome_.prompt_tokens = session_->sequence->size();
  outcome_.reused_tokens = session_->sequence->computed();
  session_->generating = true;
}

void SoloGenerator::finish(Finish reason) noexcept {
  if (ended_) return;
  ended_ = true;
  generation_.end(reason);
  outcome_.finish = *generation_.finished();
  const runtime::PoolLock lock(*session_->pool);
  if (handed_out_) generation_.pop_front();
  handed_out_ = false;
  generation_.drop_waiting(*session_->sequence);
  session_->generating = false;
}

std::optional<SoloGenerator::Clock::time_point> SoloGenerator::deadline() const noexcept {
  std::optional<Clock::time_point> at;
  const auto consider = [&](std::chrono::nanoseconds limit) {
    if (limit.count() <= 0 || limit > Clock::time_point::max() - start_) return;
    const Clock::time_point end = start_ + std::chrono::duration_cast<Clock::duration>(limit);
    at = at ? std::min(*at, end) : end;
  };
  consider(deadlines_.whole);
  if (outcome_.new_tokens == 0) consider(deadlines_.first_token);
  return at;
}

/// One token further, or the end.
Result<void> SoloGenerator::advance(const std::stop_token& stop) {
  return api::guard("Generator::next", [&]() -> Result<void> {
    const std::optional<Clock::time_point> until = deadline();
    if (until && Clock::now() >= *until) {
      generation_.end(Finish::deadline);
      return {};
    }
    runtime::ComputedRow row;
    const Session::Body::End computed = session_->compute_for(generation_, stop, flag_, until, row);
    if (computed == Session::Body::End::cancelled) generation_.end(Finish::cancelled);
    if (computed == Session::Body::End::deadline) generation_.end(Finish::deadline);
    if (computed != Session::Body::End::done) return {};
    const runtime::PoolLock lock(*session_->pool);
    const profile::PartScope sampling(session_->recorder(), profile::Part::sampling, profile::Part::outside);
    return generation_.step(row, session_->sampler, *session_->sequence);
  });
}

Result<const Piece*> SoloGenerator::next(const std::stop_token& stop) {
  if (ended_) return static_cast<const Piece*>(nullptr);
  if (handed_out_) generation_.pop_front();
  handed_out_ = false;
  while (generation_.front() == nullptr && !generation_.finished()) {
    if (stop.stop_requested() || flag_.requested()) {
      generation_.end(Finish::cancelled);
      break;
    }
    Result<void> advanced = advance(stop);
    if (!advanced) {
      finish(Finish::cancelled);
      Error error = std::move(advanced).error();
      if (error.where == nullptr || *error.where == '\0') error.where = "Generator::next";
      return error;
    }
  }
  const bool stopped = generation_.finished() == Finish::cancelled || generation_.finished() == Finish::deadline;
  const runtime::Generation::Waiting* front = stopped ? nullptr : generation_.front();
  if (front == nullptr) {
    outcome_.stop_string = generation_.stop_string();
    finish(Finish::cancelled);
    return static_cast<const Piece*>(nullptr);
  }
  piece_ = generation_.piece_of(*front);
  handed_out_ = true;
  ++outcome_.new_tokens;
  return static_cast<const Piece*>(&piece_);
}

Session SoloGenerator::release() {
  core::fail(ErrorCode::invalid_argument, "release() is for generators of a Batcher; this one borrows its Session");
}

Generator::Generator(std::unique_ptr<Body> body) noexcept : body_(std::move(body)) {}
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;
Generator::~Generator() = default;

Result<const Piece*> Generator::next(std::stop_token stop) {
  return api::guard("Generator::next", [&] { return body_->next(stop); });
}

Result<Outcome> Generator::run(const std::function<bool(const Piece&)>& on_piece, std::stop_token stop) {
  return api::guard("Generator::run", [&]() -> Result<Outcome> {
    if (!on_piece) core::fail(ErrorCode::invalid_argument, "on_piece is empty");
    for (;;) {
      Result<const Piece*> piece = body_->next(stop);
      if (!piece) return std::move(piece).error();
      if (*piece == nullptr) return body_->outcome();
      bool more = false;
      try {
        more = on_piece(**piece);
      } catch (const std::exception& e) {
        body_->end(Finish::cancelled);
        core::fail(ErrorCode::callback_failed, "on_piece threw: {}", e.what());
      } catch (...) {
        body_->end(Finish::cancelled);
        core::fail(ErrorCode::callback_failed, "on_piece threw");
      }
      if (!more) {
        body_->end(Finish::cancelled);
        return body_->outcome();
      }
    }
  });
}

void Generator::cancel() noexcept { body_->cancel(); }
Result<Session> Generator::release() && {
  return api::guard("Generator::release", [&] { return body_->release(); });
}
const Outcome& Generator::outcome() const noexcept { return body_->outcome(); }

}  // namespace v0
}  // namespace llminfer
