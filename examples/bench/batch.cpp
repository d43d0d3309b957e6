#include "batch.h"

#include <algorithm>
#include <llminfer/batcher.hpp>
#include <vector>

#include "../common/stopwatch.h"
#include "measure.h"

namespace examples {
namespace {

constexpr int context = batch_prompt + batch_generate + 1;

// With its prompt computed but for the last token.
llminfer::Session session_of(llminfer::Batcher& batcher, const llminfer::Model& model, int index,
                             const std::stop_token& stop) {
  llminfer::Session session = batcher.open_session({.context = context}).value();
  const std::vector<llminfer::Token> tokens =
      some_tokens(model.tokenizer(), batch_prompt, static_cast<unsigned>(index) + 10);
  session.append(std::span(tokens).first(batch_prompt - 1)).value();
  session.prefill(stop).value();
  session.append(std::span(tokens).last(1)).value();
  return session;
}

}  // namespace

double batch_speed(const llminfer::Model& model, int sequences, const std::stop_token& stop) {
  llminfer::BatcherOptions options;
  constexpr int page = 64;  // at most so many tokens in a page, and one to spare for each sequence
  options.kv_bytes = static_cast<std::size_t>(model.info().memory.kv_per_token) * (context + 2 * page) *
                     static_cast<std::size_t>(sequences);
  options.max_sequences = sequences;
  options.step_tokens = sequences;
  options.pieces_ahead = batch_generate;
  llminfer::Batcher batcher = llminfer::Batcher::start(model, options).value();
  std::vector<llminfer::Session> sessions;
  for (int i = 0; i < sequences; ++i) sessions.push_back(session_of(batcher, model, i, stop));
  std::vector<llminfer::Generator> generators;
  const Stopwatch watch;
  for (llminfer::Session& session : sessions) {
    generators.push_back(
        batcher.submit(std::move(session), {.max_tokens = batch_generate, .ignore_end_of_text = true}).value());
  }
  for (llminfer::Generator& generator : generators) {
    const auto outcome = generator.run([](const llminfer::Piece&) { return true; }, stop).value();
    if (outcome.new_tokens == batch_generate) continue;
    llminfer::throw_error({llminfer::ErrorCode::cancelled, "a sequence ended early", "Generator::run"});
  }
  return sequences * batch_generate / watch.seconds();
}

}  // namespace examples
