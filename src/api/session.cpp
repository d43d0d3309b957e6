#include <llminfer/session.hpp>

#include <algorithm>

#include "api/generator_body.h"
#include "api/guard.h"
#include "api/session_body.h"
#include "api/session_state.h"
#include "core/fail.h"

namespace llminfer {
inline namespace v0 {
namespace {

std::shared_ptr<runtime::Pool> make_pool(const Model::Body& model, const SessionOptions& options) {
  const std::size_t kv_bytes = api::kv_budget(model.device, "SessionOptions", options.kv_bytes, options.kv_share);
  runtime::PoolOptions pool;
  pool.program = model.program;
  pool.graph = model.graph;
  pool.limits = model.limits;
  pool.format = model.format;
  pool.page_size = model.page_size;
  pool.host = model.host;
  pool.pages = api::session_pages(*model.graph, model.needs, model.page_size,
                                  {options.context, kv_bytes, model.limits.tokens, 0});
  return std::make_shared<runtime::Pool>(std::move(pool));
}

/// Hands out the rows of one chunk; false when the caller has enough.
bool hand_out(const Session::Body& body, int first_position, int count,
              const std::function<bool(int, std::span<const float>)>& on_row) {
  for (int i = 0; i < count; ++i) {
    bool more = false;
    try {
      more = on_row(first_position + i, body.rows.logits(static_cast<std::size_t>(i)));
    } catch (const std::exception& e) {
      core::fail(ErrorCode::callback_failed, "on_row threw: {}", e.what());
    } catch (...) {
      core::fail(ErrorCode::callback_failed, "on_row threw");
    }
    if (!more) return false;
  }
  return true;
}

void score(Session::Body& body, std::span<const Token> tokens,
           const std::function<bool(int, std::span<const float>)>& on_row, const std::stop_token& stop) {
  if (!on_row) core::fail(ErrorCode::invalid_argument, "on_row is empty");
  backend::StopFlag flag;
  if (body.sequence->computed() < body.sequence->size()) {  // what stood before gets no rows
    const auto end = body.compute(stop, flag, {});
    if (end != Session::Body::End::done) core::fail(ErrorCode::cancelled, "cancelled in prefill");
  }
  body.append(tokens);
  const int most = std::min(body.pool->limits().outputs, body.pool->limits().tokens);
  body.logits_at = 0;
  body.rows.grow(std::min(tokens.size(), static_cast<std::size_t>(most)));
  while (body.sequence->computed() < body.sequence->size()) {
    if (stop.stop_requested()) core::fail(ErrorCode::cancelled, "cancelled in score");
    const int first = body.sequence->computed();
    const int count = std::min(most, body.sequence->size() - first);
    body.score_chunk(count, stop);
    const bool more = hand_out(body, first, count, on_row);
    if (first + count == body.sequence->size()) {  // logits() shows row 0: the last token's
      const std::span<const float> last = body.rows.logits(static_cast<std::size_t>(count) - 1);
      std::copy(last.begin(), last.end(), body.rows.logits(0).begin());
      body.logits_at = body.sequence->size();
    }
    if (!more) return;
  }
}

}  // namespace

Session::Session(std::shared_ptr<Body> body) noexcept : body_(std::move(body)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::open(const Model& model, SessionOptions options) {
  return api::guard("Session::open", [&] {
    const Model::Body& m = *model.body();
    std::shared_ptr<runtime::Pool> pool = make_pool(m, options);
    const int context = options.context > 0 ? options.context : m.graph->context;
    std::uint64_t kv_bytes = 0;
    for (std::size_t g = 0; g < pool->groups(); ++g) {
      kv_bytes += static_cast<std::uint64_t>(pool->pages(g).size()) * m.needs.page_bytes[g];
    }
    auto body = std::make_shared<Body>(model, std::move(pool), context);
    body->profiled.emplace(options.profile, m, kv_bytes);
    return Session(std::move(body));
  });
}

Result<void> Session::append(std::span<const Token> tokens) {
  return api::guard("Session::append", [&] {
    body_->require_idle();
    body_->append(tokens);
  });
}

Result<void> Session::prefill(std::stop_token stop) {
  return api::guard("Session::prefill", [&] {
    body_->require_idle();
    if (body_->sequence->size() == 0) return;
    backend::StopFlag flag;
    if (body_->compute(stop, flag, {}) != Body::End::done) core::fail(ErrorCode::cancelled, "cancelled in prefill");
  });
}

Result<void> Session::score(std::span<const Token> tokens,
                            const std::function<bool(int, std::span<const float>)>& on_row, std::stop_token stop) {
  return api::guard("Session::score", [&] {
    body_->require_idle();
    v0::score(*body_, tokens, on_row, stop);
  });
}

std::span<const float> Session::logits() const noexcept { return body_->logits(); }
std::span<const Token> Session::tokens() const noexcept { return body_->sequence->tokens(); }
int Session::context() const noexcept { return body_->sequence->context(); }

Result<Generator> Session::generate(GenerateOptions options) & {
  return api::guard("Session::generate", [&] {
    body_->require_idle();
    if (body_->sequence->size() == 0) core::fail(ErrorCode::invalid_argument, "the session has no tokens to continue");
    return Generator(std::make_unique<SoloGenerator>(body_, options));
  });
}

Result<Session> Session::fork() const {
  return api::guard("Session::fork", [&] {
    body_->require_idle();
    auto other =
        std::make_shared<Body>(body_->model, body_->pool, body_->sequence->context(), body_->sequence->paging());
    const runtime::PoolLock lock(*body_->pool);
    other->sequence->share(*body_->sequence);
    if (body_->logits_current()) {
      const std::span<const float> logits = body_->logits();
      std::copy(logits.begin(), logits.end(), other->rows.logits(0).begin());
      other->logits_at = body_->logits_at;
    }
    return Session(std::move(other));
  });
}

Result<void> Session::save(std::ostream& out) const {
  return api::guard("Session::save", [&] {
    body_->require_idle();
    api::save_session(*body_, out);
  });
}

Result<Session> Session::restore(const Model& model, std::istream& in, SessionOptions options) {
  return api::guard("Session::restore", [&] {
    Session session = open(model, options).value();
    api::restore_session(*session.body_, in);
    return session;
  });
}

Result<void> Session::rewind(int tokens) {
  return api::guard("Session::rewind", [&] {
    body_->require_idle();
    body_->rewind(tokens);
  });
}

}  // namespace v0
}  // namespace llminfer
