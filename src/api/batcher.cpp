#include <llminfer/batcher.hpp>

#include "api/batched_generator.h"
#include "api/batcher_body.h"
#include "api/guard.h"
#include "core/fail.h"

namespace llminfer {
inline namespace v0 {
namespace {

/// Hands a request's pieces and its end to the application, on the engine's thread.
class CallbackSink final : public runtime::BatchSink {
 public:
  using OnPiece = std::function<bool(const Piece&)>;
  using OnEnd = std::function<void(Result<Outcome>, Session)>;

  CallbackSink(std::shared_ptr<Session::Body> session, OnPiece on_piece, OnEnd on_end)
      : session_(std::move(session)), on_piece_(std::move(on_piece)), on_end_(std::move(on_end)) {}

  bool on_piece(const Piece& piece) override { return on_piece_(piece); }
  void on_end(Result<Outcome> result) noexcept override {
    session_->generating = false;
    const Result<void> called = api::guard("Batcher", [&] {
      Session session(std::move(session_));
      if (on_end_) on_end_(std::move(result), std::move(session));
    });
    static_cast<void>(called);  // the request has ended: there is nobody left to tell
    on_piece_ = nullptr;
    on_end_ = nullptr;
  }

 private:
  std::shared_ptr<Session::Body> session_;
  OnPiece on_piece_;
  OnEnd on_end_;
};

}  // namespace

class Ticket::Body {
 public:
  std::shared_ptr<runtime::BatchEngine> engine;
  std::shared_ptr<runtime::BatchRequest> request;
};

Ticket::Ticket(std::shared_ptr<Body> body) noexcept : body_(std::move(body)) {}
void Ticket::cancel() noexcept {
  if (body_) body_->engine->cancel(*body_->request);
}

Batcher::Batcher(std::shared_ptr<Body> body) noexcept : body_(std::move(body)) {}
Batcher::Batcher(Batcher&&) noexcept = default;
Batcher& Batcher::operator=(Batcher&&) noexcept = default;
Batcher::~Batcher() = default;

Result<Batcher> Batcher::start(const Model& model, BatcherOptions options) {
  return api::guard("Batcher::start", [&] { return Batcher(std::make_shared<Body>(model, options)); });
}

Result<Session> Batcher::open_session(SessionOptions options) {
  return api::guard("Batcher::open_session", [&] {
    const int most = body_->model.info().context;
    if (options.kv_bytes != 0) {
      core::fail(ErrorCode::invalid_argument, "SessionOptions::kv_bytes is {}; a batcher's sessions have its memory",
                 options.kv_bytes);
    }
    if (options.context < 0 || options.context > most) {
      core::fail(ErrorCode::invalid_argument, "SessionOptions::context is {}, the model serves 1 to {} (0: all)",
                 options.context, most);
    }
    return Session(body_->open(options.context > 0 ? options.context : most));
  });
}

Result<Generator> Batcher::submit(Session&& session, GenerateOptions options) {
  return api::guard("Batcher::submit", [&] {
    std::vector<Generator> generators = body_->submit_many(session, 1, options);
    const Session taken = std::move(session);
    return std::move(generators.front());
  });
}

Result<std::vector<Generator>> Batcher::submit_many(Session&& session, int count, GenerateOptions options) {
  return api::guard("Batcher::submit_many", [&] {
    if (count < 1 || count > 1024) core::fail(ErrorCode::invalid_argument, "count is {}, must be 1 to 1024", count);
    std::vector<Generator> generators = body_->submit_many(session, count, options);
    const Session taken = std::move(session);
    return generators;
  });
}

Result<Ticket> Batcher::submit(Session&& session, GenerateOptions options, std::function<bool(const Piece&)> on_piece,
                               std::function<void(Result<Outcome>, Session)> on_end) {
  return api::guard("Batcher::submit", [&] {
    if (!on_piece) core::fail(ErrorCode::invalid_argument, "on_piece is empty");
    const std::shared_ptr<Session::Body> body = body_->session_for(session, options);
    auto sink = std::make_unique<CallbackSink>(body, std::move(on_piece), std::move(on_end));
    auto ticket = std::make_shared<Ticket::Body>();
    ticket->engine = body_->engine;
    ticket->request = body_->make_request(body, options, std::move(sink));
    body_->submit(std::span(&body, 1), std::span(&ticket->request, 1));
    const Session taken = std::move(session);
    return Ticket(std::move(ticket));
  });
}

BatchStats Batcher::stats() const { return body_->engine->stats(); }

}  // namespace v0
}  // namespace llminfer
