#include "api/batcher_body.h"

#include <algorithm>

#include "api/fingerprint.h"
#include "api/generator_body.h"
#include "core/fail.h"

namespace llminfer {
inline namespace v0 {
namespace {

void check_range(const char* field, std::int64_t value, std::int64_t high) {
  if (value < 1 || value > high) {
    core::fail(ErrorCode::invalid_argument, "BatcherOptions::{} is {}, must be 1 to {}", field, value, high);
  }
}

void check(const BatcherOptions& options, const Model::Body& model) {
  if (options.kv_bytes == 0 && options.kv_share == 0) {
    core::fail(ErrorCode::invalid_argument, "BatcherOptions::kv_bytes is 0, and so is kv_share");
  }
  check_range("max_sequences", options.max_sequences, std::min(model.limits.sequences, model.limits.outputs));
  check_range("step_tokens", options.step_tokens, model.limits.tokens);
  check_range("queue", options.queue, 1'000'000);
  check_range("pieces_ahead", options.pieces_ahead, 1 << 16);
}

std::shared_ptr<runtime::Pool> make_pool(const Model::Body& model, const BatcherOptions& options) {
  const std::size_t kv_bytes = api::kv_budget(model.device, "BatcherOptions", options.kv_bytes, options.kv_share);
  runtime::PoolOptions pool;
  pool.program = model.program;
  pool.graph = model.graph;
  pool.limits = model.limits;
  pool.limits.tokens = options.step_tokens;
  pool.format = model.format;
  pool.page_size = model.page_size;
  pool.pages = api::session_pages(*model.graph, model.needs, model.page_size,
                                  {0, kv_bytes, options.step_tokens, options.max_sequences});
  if (options.prefix_cache) pool.prefix_cache = {api::random_key(), model.fingerprint};
  pool.host = model.host;
  return std::make_shared<runtime::Pool>(std::move(pool));
}

std::shared_ptr<runtime::BatchEngine> make_engine(const Model::Body& model, const BatcherOptions& options,
                                                  std::shared_ptr<const runtime::Clock> clock,
                                                  std::shared_ptr<profile::Recorder> recorder, bool swap_always) {
  check(options, model);
  runtime::BatchEngineOptions engine;
  engine.pool = make_pool(model, options);
  engine.memory = model.host;
  engine.max_sequences = options.max_sequences;
  engine.step_tokens = options.step_tokens;
  engine.queue = static_cast<std::size_t>(options.queue);
  engine.clock = std::move(clock);
  engine.recorder = std::move(recorder);
  engine.swap_bytes = options.swap_bytes;
  engine.swap_always = swap_always;
  return std::make_shared<runtime::BatchEngine>(std::move(engine));
}

}  // namespace

Batcher::Body::Body(Model model_in, BatcherOptions options_in, std::shared_ptr<const runtime::Clock> clock,
                    bool swap_always)
    : model(std::move(model_in)),
      profiled(options_in.profile, *model.body(), options_in.kv_bytes),
      options(std::move(options_in)),
      engine(make_engine(*model.body(), options, std::move(clock), profiled.recorder(), swap_always)) {
  thread_ = std::make_unique<core::Thread>([loop = engine] { loop->run(); });
}

Batcher::Body::~Body() {
  engine->stop();
  thread_.reset();  // in a callback it does not wait: the loop ends by itself
}

std::shared_ptr<Session::Body> Batcher::Body::open(int context) const {
  return std::make_shared<Session::Body>(model, engine->pool(), context, runtime::Paging::at_step);
}

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

std::shared_ptr<runtime::BatchRequest> Batcher::Body::make_request(const std::shared_ptr<Session::Body>& session,
                                                                   const GenerateOptions& generate,
                                                                   std::unique_ptr<runtime::BatchSink> sink) const {
  runtime::BatchRequestSetup setup;
  setup.sequence = session->sequence.get();
  setup.keeps_alive = session;
  session->sequence->set_salt(generate.salt);
  setup.generation = generation_setup(*session);
  setup.pieces_ahead = static_cast<std::size_t>(options.pieces_ahead);
  setup.sink = std::move(sink);
  return std::make_shared<runtime::BatchRequest>(generate, std::move(setup));
}

Batcher::Body::Group Batcher::Body::make_group(const Session& session, int count, GenerateOptions generate,
                                               const MakeSink& make_sink) const {
  if (count < 1 || count > 1024) core::fail(ErrorCode::invalid_argument, "count is {}, must be 1 to 1024", count);
  Group group;
  const std::shared_ptr<Session::Body> first = session_for(session, generate);
  runtime::BatchRequest* before = nullptr;
  for (int i = 0; i < count; ++i) {
    const std::shared_ptr<Session::Body> own = i == 0 ? first : open(first->sequence->context());
    if (i > 0) own->append(first->sequence->tokens());
    group.sessions.push_back(own);
    group.requests.push_back(make_request(own, generate, make_sink ? make_sink(i, own) : nullptr));
    ++generate.sampling.sequence;
    runtime::BatchRequest* const request = group.requests.back().get();
    if (i > 0) request->leader = group.requests.front().get();
    if (i > 0) (i == 1 ? before->followers : before->next_follower) = request;
    before = request;
  }
  return group;
}

void Batcher::Body::submit(Sessions sessions, Requests requests) const {
  for (const std::shared_ptr<Session::Body>& session : sessions) {
    session->logits_at = 0;  // the engine's logits do not come here
    session->generating = true;
  }
  try {
    engine->submit(requests);
  } catch (...) {
    for (const std::shared_ptr<Session::Body>& session : sessions) session->generating = false;
    throw;
  }
}

}  // namespace v0
}  // namespace llminfer
