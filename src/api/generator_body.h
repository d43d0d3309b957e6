// The state behind a Generator: one interface, here with the kind that runs its steps itself.
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
  Body() = default;
  virtual ~Body() = default;
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  virtual Result<const Piece*> next(const std::stop_token& stop) = 0;
  /// (any thread)
  virtual void cancel() noexcept = 0;
  /// Ends the generation if it has not ended: what was not handed out is taken back.
  virtual void end(Finish finish) noexcept = 0;
  virtual const Outcome& outcome() const noexcept = 0;
  /// May throw.
  virtual Session release() = 0;
};

/// What a generation of this session is set up with.
runtime::GenerationSetup generation_setup(const Session::Body& session);
/// Throws invalid_argument for options out of range, else returns them: to check before anything is made of them.
const GenerateOptions& checked(const GenerateOptions& options, const Session::Body& session);

/// Runs its steps in next(), on the caller's thread.
class SoloGenerator final : public Generator::Body {
 public:
  /// Marks the session as in use; throws invalid_argument for options out of range.
  SoloGenerator(std::shared_ptr<Session::Body> session, const GenerateOptions& options);
  ~SoloGenerator() override { finish(Finish::cancelled); }

  Result<const Piece*> next(const std::stop_token& stop) override;
  void cancel() noexcept override { flag_.request(); }
  void end(Finish reason) noexcept override { finish(reason); }
  const Outcome& outcome() const noexcept override { return outcome_; }
  Session release() override;

 private:
  using Clock = Session::Body::Clock;
  void finish(Finish reason) noexcept;
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
