// The state behind a Generator whose steps a Batcher runs.
#pragma once

#include "api/generator_body.h"
#include "runtime/batch_engine.h"

namespace llminfer {
inline namespace v0 {

class BatchedGenerator final : public Generator::Body {
 public:
  BatchedGenerator(std::shared_ptr<runtime::BatchEngine> engine, std::shared_ptr<runtime::BatchRequest> request,
                   std::shared_ptr<Session::Body> session)
      : engine_(std::move(engine)),
        request_(std::move(request)),
        session_(std::move(session)),
        outcome_(request_->outcome) {}
  ~BatchedGenerator() override;

  Result<const Piece*> next(const std::stop_token& stop) override;
  void cancel() noexcept override { engine_->cancel(*request_); }
  void end(Finish finish) noexcept override;
  const Outcome& outcome() const noexcept override { return outcome_; }
  Session release() override;
  /// The request was refused: the session stays with its owner.
  void disown() noexcept { session_.reset(); }

 private:
  const std::shared_ptr<runtime::BatchEngine> engine_;
  const std::shared_ptr<runtime::BatchRequest> request_;
  std::shared_ptr<Session::Body> session_;
  bool handed_out_ = false;  // the front of the queue
  bool ended_ = false;
  Outcome outcome_;
};

}  // namespace v0
}  // namespace llminfer
