#include <llminfer/batcher.hpp>

#include <algorithm>

#include "api/batched_generator.h"
#include "api/guard.h"
#include "core/fail.h"
#include "core/thread.h"

namespace llminfer {
inline namespace v0 {
namespace {

void check_range(const char* field, std::int64_t value, std::int64_t high) {
  if (value < 1 || value > high) {
    core::fail(ErrorCode::invalid_argument, "BatcherOptions::{} is {}, must be 1 to {}", field, value, high);
  }
}

void check(const BatcherOptions& options, const Model::Body& model) {
  if (options.kv_bytes == 0) core::fail(ErrorCode::invalid_argument, "BatcherOptions::kv_bytes is 0");
  check_range("max_sequences", options.max_sequences, std::min(model.limits.sequences, model.limits.outputs));
  check_range("step_tokens", options.step_tokens, model.limits.tokens);
  check_range("queue", options.queue, 1'000'000);
  check_range("pieces_ahead", options.pieces_ahead, 1 << 16);
}

std::shared_ptr<runtime::Pool> make_pool(const Model::Body& model, std::size_t kv_bytes) {
  runtime::PoolOptions pool;
  pool.program = model.program;
  pool.graph = model.graph;
  pool.limits = model.limits;
  pool.format = model.format;
  pool.page_size = model.page_size;
  pool.pages = api::session_pages(*model.graph, model.needs, model.page_size, {0, kv_bytes});
  pool.host = model.host;
  return std::make_shared<runtime::Pool>(std::move(pool));
}

std::shared_ptr<runtime::BatchEngine> make_engine(const Model::Body& model, const BatcherOptions& options) {
  check(options, model);
  runtime::BatchEngineOptions engine;
  engine.pool = make_pool(model, options.kv_bytes);
  engine.memory = model.host;
  engine.max_sequences = options.max_sequences;
  engine.step_tokens = options.step_tokens;
  engine.queue = static_cast<std::size_t>(options.queue);
  return std::make_shared<runtime::BatchEngine>(std::move(engine));
}

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

class Batcher::Body {
 public:
  Body(Model model_in, BatcherOptions options_in)
      : model(std::move(model_in)), options(options_in), engine(make_engine(*model.body(), options)) {
    thread = std::make_unique<core::Thread>([loop = engine] { loop->run(); });
  }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;
  ~Body() {
    engine->stop();
    thread.reset();  // in a callback it does not wait: the loop ends by itself
  }

  /// The session to continue: the given one, or its history in a new one of this pool. Throws what is wrong with it.
  std::shared_ptr<Session::Body> session_for(const Session& session, const GenerateOptions& generate) const;
  std::shared_ptr<Session::Body> open(int context) const {
    return std::make_shared<Session::Body>(model, engine->pool(), context, runtime::Paging::at_step);
  }

  const Model model;
  const BatcherOptions options;
  const std::shared_ptr<runtime::BatchEngine> engine;
  std::unique_ptr<core::Thread> thread;
};

std::shared_ptr<Session::Body> Batcher::Body::session_for(const Session& session,
                                                          const GenerateOptions& generate) const {
  const std::shared_ptr<Session::Body>& given = session.body();
  if (!given) core::fail(ErrorCode::invalid_argument, "the session was moved from");
  given->require_idle();
  const int size = given->sequence->size();
  if (size == 0) core::fail(ErrorCode::invalid_argument, "the session has no tokens to continue");
  if (given->model.body() != model.body()) {
    core::fail(ErrorCode::mismatch, "the session belongs to another model than the batcher");
  }
  checked(generate, *given);
  const std::int64_t page = model.body()->page_size;
  const std::int64_t pages = (size + page - 1) / page;
  if (pages > engine->total_pages()) {
    core::fail_amount(ErrorCode::out_of_pages, pages, engine->total_pages(),
                      "the history takes {} pages, the whole pool has {}", pages, engine->total_pages());
  }
  if (given->pool == engine->pool()) return given;
  std::shared_ptr<Session::Body> own = open(given->sequence->context());
  own->append(given->sequence->tokens());
  return own;
}

namespace {

/// The request of a session that is ready for it.
std::shared_ptr<runtime::BatchRequest> make_request(const std::shared_ptr<Session::Body>& session,
                                                    const GenerateOptions& generate, int pieces_ahead,
                                                    std::unique_ptr<runtime::BatchSink> sink) {
  runtime::BatchRequestSetup setup;
  setup.sequence = session->sequence.get();
  setup.keeps_alive = session;
  setup.generation = generation_setup(*session);
  setup.pieces_ahead = static_cast<std::size_t>(pieces_ahead);
  setup.sink = std::move(sink);
  return std::make_shared<runtime::BatchRequest>(generate, std::move(setup));
}

/// Marks the session as in use while a request of it is submitted, and afterwards if that worked.
void submit_marked(runtime::BatchEngine& engine, Session::Body& session,
                   const std::shared_ptr<runtime::BatchRequest>& request) {
  session.logits_at = 0;  // the engine's logits do not come here
  session.generating = true;
  try {
    engine.submit(request);
  } catch (...) {
    session.generating = false;
    throw;
  }
}

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
    std::shared_ptr<Session::Body> body = body_->session_for(session, options);
    const auto request = make_request(body, options, body_->options.pieces_ahead, nullptr);
    auto generator = std::make_unique<BatchedGenerator>(body_->engine, request, body);
    try {
      submit_marked(*body_->engine, *body, request);
    } catch (...) {
      generator->disown();
      throw;
    }
    const Session taken = std::move(session);
    return Generator(std::move(generator));
  });
}

Result<Ticket> Batcher::submit(Session&& session, GenerateOptions options, std::function<bool(const Piece&)> on_piece,
                               std::function<void(Result<Outcome>, Session)> on_end) {
  return api::guard("Batcher::submit", [&] {
    if (!on_piece) core::fail(ErrorCode::invalid_argument, "on_piece is empty");
    std::shared_ptr<Session::Body> body = body_->session_for(session, options);
    auto sink = std::make_unique<CallbackSink>(body, std::move(on_piece), std::move(on_end));
    auto ticket = std::make_shared<Ticket::Body>();
    ticket->engine = body_->engine;
    ticket->request = make_request(body, options, 0, std::move(sink));
    submit_marked(*body_->engine, *body, ticket->request);
    const Session taken = std::move(session);
    return Ticket(std::move(ticket));
  });
}

BatchStats Batcher::stats() const { return body_->engine->stats(); }

}  // namespace v0
}  // namespace llminfer
