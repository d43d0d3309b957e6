#include "batch.h"

#include <algorithm>
#include <llminfer/batcher.hpp>
#include <vector>

#include "../common/stopwatch.h"
#include "measure.h"

namespace examples {
namespace {

// With its prompt computed but for the last token.
llminfer::Session session_of(llminfer::Batcher& batcher, const llminfer::Model& model, const BatchRun& run, int index,
                             const std::stop_token& stop) {
  llminfer::Session session = batcher.open_session({.context = run.prompt + run.generate + 1}).value();
  const std::vector<llminfer::Token> tokens =
      some_tokens(model.tokenizer(), run.prompt, static_cast<unsigned>(index) + 10);
  session.append(std::span(tokens).first(tokens.size() - 1)).value();
  session.prefill(stop).value();
  session.append(std::span(tokens).last(1)).value();
  return session;
}

// Seconds until all have their tokens; then they are as before.
double generate_all(llminfer::Batcher& batcher, std::vector<llminfer::Session>& sessions, const BatchRun& run,
                    const std::stop_token& stop) {
  std::vector<llminfer::Generator> generators;
  const Stopwatch watch;
  for (llminfer::Session& session : sessions) {
    generators.push_back(
        batcher.submit(std::move(session), {.max_tokens = run.generate, .ignore_end_of_text = true}).value());
  }
  for (llminfer::Generator& generator : generators) {
    const auto outcome = generator.run([](const llminfer::Piece&) { return true; }, stop).value();
    if (outcome.new_tokens == run.generate) continue;
    llminfer::throw_error({llminfer::ErrorCode::cancelled, "a sequence ended early", "Generator::run"});
  }
  const double seconds = watch.seconds();
  sessions.clear();
  for (llminfer::Generator& generator : generators) {
    llminfer::Session session = std::move(generator).release().value();
    const llminfer::Token last = session.tokens()[static_cast<std::size_t>(run.prompt) - 1];
    session.rewind(run.prompt - 1).value();
    session.append(std::span(&last, 1)).value();
    sessions.push_back(std::move(session));
  }
  return seconds;
}

llminfer::Batcher batcher_of(const llminfer::Model& model, const BatchRun& run, const llminfer::Profile& profile) {
  llminfer::BatcherOptions options;
  constexpr int page = 64;  // at most so many tokens in a page, and one to spare for each sequence
  options.kv_bytes = static_cast<std::size_t>(model.info().memory.kv_per_token) *
                     static_cast<std::size_t>(run.prompt + run.generate + 1 + 2 * page) *
                     static_cast<std::size_t>(run.sequences);
  options.max_sequences = run.sequences;
  options.pieces_ahead = run.generate;
  options.profile = profile;
  return llminfer::Batcher::start(model, options).value();
}

}  // namespace

BatchBench::BatchBench(const llminfer::Model& model, const BatchRun& run, const std::stop_token& stop,
                       const llminfer::Profile& profile)
    : run_(run), batcher_(batcher_of(model, run, profile)) {
  for (int i = 0; i < run.sequences; ++i) sessions_.push_back(session_of(batcher_, model, run, i, stop));
  llminfer::Profile recorded = profile;
  if (!recorded.empty()) recorded.reset().value();
}

double BatchBench::speed(const std::stop_token& stop) {
  return run_.sequences * run_.generate / generate_all(batcher_, sessions_, run_, stop);
}

std::vector<double> batch_speeds(const llminfer::Model& model, const BatchRun& run, int rounds,
                                 const std::stop_token& stop, llminfer::Profile profile) {
  BatchBench bench(model, run, stop, profile);
  std::vector<double> speeds;
  for (int round = 0; round < rounds; ++round) speeds.push_back(bench.speed(stop));
  return speeds;
}

}  // namespace examples
