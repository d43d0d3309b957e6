// The state behind a Generator that runs its steps itself.
#pragma once

#include <atomic>
#include <llminfer/generator.hpp>
#include <memory>
#include <optional>

#include "api/session_body.h"
#include "runtime/generation.h"

namespace llminfer {
inline namespace v0 {

class Generator::Body {
 public:
  /// Marks the session as in use; throws invalid_argument for options out of range.
  Body(std::shared_ptr<Session::Body> session, const GenerateOptions& options);
  ~Body() { end(Finish::cancelled); }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  Result<const Piece*> next(const std::stop_token& stop);
  void cancel() noexcept { flag_.request(); }
  /// Ends the generation if it has not ended: takes back what was not handed out and sets the session free.
  void end(Finish finish) noexcept;
  const Outcome& outcome() const noexcept { return outcome_; }

 private:
  using Clock = Session::Body::Clock;
  Result<void> advance(const std::stop_token& stop);
  std::optional<Clock::time_point> deadline() const noexcept;

  std::shared_ptr<Session::Body> session_;
  runtime::Generation generation_;
  backend::StopFlag flag_;
  Clock::time_point start_ = Clock::now();
  Deadlines deadlines_;
  Piece piece_;
  bool handed_out_ = false;  // the front of the generation's queue is piece_
  bool ended_ = false;
  Outcome outcome_;
};

}  // namespace v0
}  // namespace llminfer
