#include "api/batched_generator.h"

#include "core/fail.h"

namespace llminfer {
inline namespace v0 {

BatchedGenerator::~BatchedGenerator() {
  if (session_) engine_->abandon(*request_);
}

Result<const Piece*> BatchedGenerator::next(const std::stop_token& stop) {
  constexpr const Piece* none = nullptr;
  if (ended_) return none;
  const bool had_one = handed_out_;
  handed_out_ = false;
  using Waited = runtime::BatchEngine::Waited;
  switch (engine_->wait(*request_, had_one, stop)) {
    case Waited::piece:
      handed_out_ = true;
      ++outcome_.new_tokens;
      return &request_->queue.front();
    case Waited::stopped:
      end(Finish::cancelled);
      return none;
    case Waited::ended:
      break;
  }
  ended_ = true;
  outcome_.finish = request_->outcome.finish;
  outcome_.reused_tokens = request_->outcome.reused_tokens;
  if (request_->error) return *request_->error;
  outcome_.stop_string = request_->outcome.stop_string;
  return none;
}

void BatchedGenerator::end(Finish finish) noexcept {
  if (ended_) return;
  ended_ = true;
  outcome_.finish = finish;
  engine_->cancel(*request_);
}

Session BatchedGenerator::release() {
  engine_->reclaim(*request_, handed_out_);
  ended_ = true;
  request_->keeps_alive.reset();
  session_->generating = false;
  return Session(std::move(session_));
}

}  // namespace v0
}  // namespace llminfer
