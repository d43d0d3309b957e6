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
    if (options.kv_bytes != 0 || options.kv_share != 0) {
      core::fail(ErrorCode::invalid_argument,
                 "SessionOptions::kv_bytes is {}, kv_share {}; a batcher's sessions have its memory", options.kv_bytes,
                 options.kv_share);
    }
    if (options.context < 0 || options.context > most) {
      core::fail(ErrorCode::invalid_argument, "SessionOptions::context is {}, the model serves 1 to {} (0: all)",
                 options.context, most);
    }
    return Session(body_->open(options.context > 0 ? options.context : most));
  });
}

namespace {

/// Generators of a group, which is submitted.
std::vector<Generator> read_group(const Batcher::Body& batcher, const Batcher::Body::Group& group) {
  std::vector<std::unique_ptr<BatchedGenerator>> bodies;
  std::vector<Generator> generators;
  generators.reserve(group.requests.size());
  for (std::size_t i = 0; i < group.requests.size(); ++i) {
    bodies.push_back(std::make_unique<BatchedGenerator>(batcher.engine, group.requests[i], group.sessions[i]));
  }
  try {
    batcher.submit(group);
  } catch (...) {
    for (const auto& body : bodies) body->disown();
    throw;
  }
  for (auto& body : bodies) generators.emplace_back(std::move(body));
  return generators;
}

}  // namespace

Result<Generator> Batcher::submit(Session&& session, GenerateOptions options) {
  return api::guard("Batcher::submit", [&] {
    std::vector<Generator> generators = read_group(*body_, body_->make_group(session, 1, std::move(options)));
    const Session taken = std::move(session);
    return std::move(generators.front());
  });
}

Result<std::vector<Generator>> Batcher::submit_many(Session&& session, int count, GenerateOptions options) {
  return api::guard("Batcher::submit_many", [&] {
    std::vector<Generator> generators = read_group(*body_, body_->make_group(session, count, std::move(options)));
    const Session taken = std::move(session);
    return generators;
  });
}

Result<Ticket> Batcher::submit(Session&& session, GenerateOptions options, std::function<bool(const Piece&)> on_piece,
                               std::function<void(Result<Outcome>, Session)> on_end) {
  return api::guard("Batcher::submit", [&] {
    if (!on_piece) core::fail(ErrorCode::invalid_argument, "on_piece is empty");
    const Body::Group group =
        body_->make_group(session, 1, std::move(options), [&](int, const std::shared_ptr<Session::Body>& own) {
          return std::make_unique<CallbackSink>(own, std::move(on_piece), std::move(on_end));
        });
    auto ticket = std::make_shared<Ticket::Body>();
    *ticket = {body_->engine, group.requests.front()};
    body_->submit(group);
    const Session taken = std::move(session);
    return Ticket(std::move(ticket));
  });
}

Result<std::vector<Ticket>> Batcher::submit_many(Session&& session, int count, GenerateOptions options,
                                                 std::function<bool(int, const Piece&)> on_piece,
                                                 std::function<void(int, Result<Outcome>, Session)> on_end) {
  return api::guard("Batcher::submit_many", [&] {
    if (!on_piece) core::fail(ErrorCode::invalid_argument, "on_piece is empty");
    const auto each = std::make_shared<decltype(on_piece)>(std::move(on_piece));
    const auto end = std::make_shared<decltype(on_end)>(std::move(on_end));
    const auto make_sink = [&](int i, const std::shared_ptr<Session::Body>& own) {
      return std::make_unique<CallbackSink>(
          own, [each, i](const Piece& piece) { return (*each)(i, piece); },
          [end, i](Result<Outcome> outcome, Session back) {
            if (*end) (*end)(i, std::move(outcome), std::move(back));
          });
    };
    const Body::Group group = body_->make_group(session, count, std::move(options), make_sink);
    std::vector<Ticket> tickets;
    for (const auto& request : group.requests) {
      auto ticket = std::make_shared<Ticket::Body>();
      *ticket = {body_->engine, request};
      tickets.emplace_back(std::move(ticket));
    }
    body_->submit(group);
    const Session taken = std::move(session);
    return tickets;
  });
}

BatchStats Batcher::stats() const { return body_->engine->stats(); }

}  // namespace v0
}  // namespace llminfer
