#include "measure.h"

#include <algorithm>
#include <llminfer/session.hpp>
#include <random>

#include "../common/stopwatch.h"

namespace examples {
namespace {

using llminfer::Token;

// Computes what is appended, then takes `count` more tokens.
void generate(llminfer::Session& session, int count, const std::stop_token& stop) {
  auto generator = session.generate({.max_tokens = count, .ignore_end_of_text = true}).value();
  const auto outcome = generator.run([](const llminfer::Piece&) { return true; }, stop).value();
  if (outcome.new_tokens != count) {
    llminfer::throw_error({llminfer::ErrorCode::cancelled,
                           "generation ended after " + std::to_string(outcome.new_tokens) + " of " +
                               std::to_string(count) + " tokens (" + llminfer::to_string(outcome.finish) + ")",
                           "Generator::run"});
  }
}

}  // namespace

std::vector<Token> some_tokens(const llminfer::Tokenizer& tokenizer, int count, unsigned seed) {
  std::minstd_rand random(seed + 1);
  std::vector<Token> tokens;
  const auto size = static_cast<unsigned long>(std::max(tokenizer.size(), 1));
  for (int tries = 0; static_cast<int>(tokens.size()) < count; ++tries) {
    const auto token = static_cast<Token>(random() % size);
    if (!tokenizer.is_control(token) || tries > 100 * count) tokens.push_back(token);
  }
  return tokens;
}

double prefill_speed(const llminfer::Model& model, int prompt, const std::stop_token& stop) {
  llminfer::Session session = llminfer::Session::open(model, {.context = prompt}).value();
  const std::vector<Token> tokens = some_tokens(model.tokenizer(), prompt, 1);
  const Stopwatch watch;
  session.append(tokens).value();
  session.prefill(stop).value();
  return prompt / watch.seconds();
}

PromptBench::PromptBench(const llminfer::Model& model, int prompt)
    : tokens_(some_tokens(model.tokenizer(), prompt, 1)),
      session_(llminfer::Session::open(model, {.context = prompt}).value()) {
  session_.append(tokens_).value();
  session_.prefill().value();
}

double PromptBench::speed(const std::stop_token& stop) {
  session_.rewind(0).value();
  const Stopwatch watch;
  session_.append(tokens_).value();
  session_.prefill(stop).value();
  return static_cast<double>(tokens_.size()) / watch.seconds();
}

double decode_speed(const llminfer::Model& model, int depth, int generate_tokens, const std::stop_token& stop) {
  llminfer::Session session = llminfer::Session::open(model, {.context = depth + 1 + generate_tokens}).value();
  const std::vector<Token> tokens = some_tokens(model.tokenizer(), depth + 1, 2);
  if (depth > 0) {
    session.append(std::span(tokens).first(static_cast<std::size_t>(depth))).value();
    session.prefill(stop).value();
  }
  session.append(std::span(tokens).last(1)).value();
  const Stopwatch watch;
  generate(session, generate_tokens, stop);
  return generate_tokens / watch.seconds();
}

double first_token_time(const llminfer::Model& model, const std::stop_token& stop) {
  constexpr int prompt = 20;
  const Stopwatch watch;
  llminfer::Session session = llminfer::Session::open(model, {.context = prompt + 1}).value();
  session.append(some_tokens(model.tokenizer(), prompt, 3)).value();
  generate(session, 1, stop);
  return watch.seconds();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace examples
