// What the tests of the Batcher share: small pools, requests, and what a request alone gives.
#pragma once

#include <llminfer/batcher.hpp>

#include <chrono>
#include <thread>

#include "engine_fixture.h"

namespace llminfer::tests {

inline Model open_tiny(int step_tokens = 64) {
  LoadOptions options;
  options.max_step_tokens = step_tokens;
  options.max_sequences = 8;
  return tiny_model(cpu(2), options);
}

/// Bytes of `pages` pages.
inline std::size_t kv_bytes(const Model& model, int pages) {
  return static_cast<std::size_t>(model.info().memory.kv_per_token) * 32 * static_cast<std::size_t>(pages);
}

inline BatcherOptions small(const Model& model, int pages) {
  BatcherOptions options;
  options.kv_bytes = kv_bytes(model, pages);
  options.max_sequences = 8;
  options.step_tokens = 16;
  return options;
}

inline GenerateOptions random_options(int tokens, std::uint64_t seed) {
  GenerateOptions options;
  options.max_tokens = tokens;
  options.ignore_end_of_text = true;
  options.sampling.temperature = 0.9F;
  options.sampling.seed = seed;
  return options;
}

/// What a request alone gives: its history at the end and the logits of its last token.
struct Alone {
  std::vector<Token> history;
  std::vector<float> logits;
};

inline std::vector<float> last_logits(Session& session) {
  session.prefill().value();
  return {session.logits().begin(), session.logits().end()};
}

inline std::vector<Token> history(const Session& session) { return {session.tokens().begin(), session.tokens().end()}; }

inline Alone alone(const Model& model, const std::vector<Token>& prompt, const GenerateOptions& options) {
  Session session = Session::open(model).value();
  session.append(prompt).value();
  {
    Generator generator = session.generate(options).value();
    while (generator.next().value() != nullptr) {
    }
  }
  std::vector<float> logits = last_logits(session);
  return {history(session), std::move(logits)};
}

inline Session ready_session(Batcher& batcher, const std::vector<Token>& prompt) {
  Session session = batcher.open_session().value();
  session.append(prompt).value();
  return session;
}

/// Waits until no page is in use but for cached ones.
inline bool all_pages_back(const Batcher& batcher) {
  for (int i = 0; i < 5000; ++i) {
    const BatchStats stats = batcher.stats();
    if (stats.pages_used == stats.pages_cached && stats.running == 0 && stats.queued == 0 && stats.preempted == 0) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

}  // namespace llminfer::tests
