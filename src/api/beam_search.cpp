#include <llminfer/beam_search.hpp>

#include <algorithm>

#include "api/batcher_body.h"
#include "api/generator_body.h"
#include "api/guard.h"
#include "core/fail.h"
#include "text/piece_stream.h"

namespace llminfer {
inline namespace v0 {
namespace {

void check_range(const char* field, std::int64_t value, std::int64_t high) {
  if (value < 1 || value > high) {
    core::fail(ErrorCode::invalid_argument, "BeamOptions::{} is {}, must be 1 to {}", field, value, high);
  }
}

void check(const BeamOptions& options) {
  check_range("beams", options.beams, 256);
  check_range("results", options.results, options.beams);
  check_range("max_tokens", options.max_tokens, 1 << 30);
  const bool penalty_ok = options.length_penalty >= -8 && options.length_penalty <= 8;  // false for NaN
  if (!penalty_ok) {
    core::fail(ErrorCode::invalid_argument, "BeamOptions::length_penalty is {}, must be -8 to 8",
               options.length_penalty);
  }
}

/// What each beam's request goes by.
GenerateOptions request_options(const BeamOptions& options) {
  GenerateOptions out;
  out.stop_tokens = options.stop_tokens;
  out.deadlines.whole = options.deadlines.whole;
  out.priority = options.priority;
  out.weight = options.weight;
  out.caller = options.caller;
  return out;
}

runtime::BeamSetup setup_of(const BeamOptions& options, const Session::Body& session) {
  const runtime::GenerationSetup generation = generation_setup(session);
  const std::span<const Token> own = generation.tokenizer->vocabulary().stop_tokens();
  const auto room = static_cast<std::size_t>(session.sequence->context() - session.sequence->size());
  runtime::BeamSetup setup;
  setup.beams = static_cast<std::size_t>(options.beams);
  setup.results = static_cast<std::size_t>(options.results);
  setup.max_tokens = std::min(room, static_cast<std::size_t>(options.max_tokens));
  setup.longest = room < static_cast<std::size_t>(options.max_tokens) ? Finish::context_full : Finish::length;
  setup.length_penalty = options.length_penalty;
  setup.vocabulary = runtime::usable_vocabulary(generation);
  setup.stop_tokens = options.stop_tokens;
  (options.ignore_end_of_text ? setup.banned : setup.end_of_text).assign(own.begin(), own.end());
  setup.memory = session.model.body()->host;
  return setup;
}

/// A sequence that nobody but the engine sees.
struct OwnSequence {
  explicit OwnSequence(const Session::Body& session)
      : pool(session.pool),
        sequence(std::make_unique<runtime::Sequence>(pool, session.sequence->context(), runtime::Paging::at_step)) {
    static_cast<void>(sequence->append(session.sequence->tokens()));  // as long as the context at most
  }
  OwnSequence(const OwnSequence&) = delete;
  OwnSequence& operator=(const OwnSequence&) = delete;
  ~OwnSequence() {
    const runtime::PoolLock lock(*pool);
    sequence.reset();
  }
  const std::shared_ptr<runtime::Pool> pool;
  std::unique_ptr<runtime::Sequence> sequence;
};

using Requests = std::vector<std::shared_ptr<runtime::BatchRequest>>;

/// One request a beam; the first has the session.
Requests make_requests(const std::shared_ptr<Session::Body>& session, const BeamOptions& options) {
  GenerateOptions each = request_options(options);
  const auto group = std::make_shared<runtime::BeamGroup>(setup_of(options, *session));
  Requests requests;
  session->sequence->set_salt(options.salt);
  for (int beam = 0; beam < options.beams; ++beam) {
    runtime::BatchRequestSetup setup;
    if (beam == 0) {
      setup.sequence = session->sequence.get();
      setup.keeps_alive = session;
    } else {
      auto own = std::make_shared<OwnSequence>(*session);
      own->sequence->set_salt(options.salt);
      setup.sequence = own->sequence.get();
      setup.keeps_alive = std::move(own);
      each.deadlines = {};
    }
    setup.generation = generation_setup(*session);
    setup.beams = group;
    setup.beam = static_cast<std::size_t>(beam);
    setup.share = 1.0 / options.beams;
    requests.push_back(std::make_shared<runtime::BatchRequest>(each, std::move(setup)));
    requests.back()->abandoned = beam != 0;
    group->requests.push_back(requests.back().get());
  }
  if (group->state.over()) group->end(setup_of(options, *session).longest);
  return requests;
}

std::string text_of(const text::Vocabulary& vocabulary, std::span<const Token> tokens) {
  text::PieceStream stream(std::make_shared<const text::StopStrings>(std::vector<std::string>()),
                           vocabulary.longest_bytes());
  std::string text;
  for (const Token token : tokens) {
    if (!vocabulary.contains(token) || vocabulary.is_control(token)) continue;
    stream.feed(vocabulary.bytes(token));
    text += stream.text();
  }
  stream.finish();
  text += stream.text();
  return text;
}

Hypothesis hypothesis_of(const runtime::BeamHypothesis& found, const text::Vocabulary& vocabulary) {
  Hypothesis out;
  out.tokens.assign(found.tokens.begin(), found.tokens.end());
  const bool stopped = found.finish == Finish::stop_token || found.finish == Finish::end_of_text;
  out.text = text_of(vocabulary, std::span(out.tokens).first(out.tokens.size() - (stopped ? 1 : 0)));
  out.logprob = found.logprob;
  out.score = found.score;
  out.finish = found.finish;
  return out;
}

}  // namespace

class BeamSearch::Body {
 public:
  Body(std::shared_ptr<runtime::BatchEngine> engine_in, std::shared_ptr<runtime::BatchRequest> request_in,
       std::shared_ptr<Session::Body> session_in)
      : engine(std::move(engine_in)), request(std::move(request_in)), session(std::move(session_in)) {}
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;
  ~Body() {
    if (session) engine->abandon(*request);
  }

  std::vector<Hypothesis> wait(const std::stop_token& stop) {
    const auto waited = engine->wait(*request, false, stop);
    if (waited == runtime::BatchEngine::Waited::stopped) engine->cancel(*request);
    if (waited == runtime::BatchEngine::Waited::stopped || request->outcome.finish == Finish::cancelled) {
      if (waited != runtime::BatchEngine::Waited::stopped && request->error) throw Exception(*request->error);
      core::fail(ErrorCode::cancelled, "the search was cancelled");
    }
    std::vector<Hypothesis> out;
    const text::Vocabulary& vocabulary = session->model.tokenizer().body().vocabulary();
    for (const runtime::BeamHypothesis& found : request->beams->state.hypotheses()) {
      out.push_back(hypothesis_of(found, vocabulary));
    }
    return out;
  }

  Session release() {
    engine->reclaim(*request, false);
    {
      const runtime::PoolLock lock(*session->pool);
      session->sequence->rewind(request->outcome.prompt_tokens);
      session->sequence->trim();
    }
    request->keeps_alive.reset();
    session->generating = false;
    return Session(std::move(session));
  }

  const std::shared_ptr<runtime::BatchEngine> engine;
  const std::shared_ptr<runtime::BatchRequest> request;
  std::shared_ptr<Session::Body> session;
};

BeamSearch::BeamSearch(std::unique_ptr<Body> body) noexcept : body_(std::move(body)) {}
BeamSearch::BeamSearch(BeamSearch&&) noexcept = default;
BeamSearch& BeamSearch::operator=(BeamSearch&&) noexcept = default;
BeamSearch::~BeamSearch() = default;

Result<std::vector<Hypothesis>> BeamSearch::wait(std::stop_token stop) {
  return api::guard("BeamSearch::wait", [&] { return body_->wait(stop); });
}
void BeamSearch::cancel() noexcept { body_->engine->cancel(*body_->request); }
Result<Session> BeamSearch::release() && {
  return api::guard("BeamSearch::release", [&] { return body_->release(); });
}

Result<BeamSearch> Batcher::submit_beams(Session&& session, BeamOptions options) {
  return api::guard("Batcher::submit_beams", [&] {
    check(options);
    const std::shared_ptr<Session::Body> body = body_->session_for(session, request_options(options));
    const Requests requests = make_requests(body, options);
    auto search = std::make_unique<BeamSearch::Body>(body_->engine, requests.front(), body);
    try {
      body_->submit(std::span(&body, 1), requests);
    } catch (...) {
      search->session.reset();
      throw;
    }
    const Session taken = std::move(session);
    return BeamSearch(std::move(search));
  });
}

}  // namespace v0
}  // namespace llminfer
