// Microseconds to choose one token from a row of logits, for the usual chains: medians over rows like a model's
// (normal, with a few tokens far above the rest). Usage: sampling_bench [vocabulary = 262144] [rows = 200]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>

#include "runtime/sampling/chain.h"

using namespace llminfer;
using runtime::Draw;
using runtime::SamplerChain;
using runtime::SamplerWorkspace;
using runtime::SampleStatus;

namespace {

std::vector<float> random_row(int vocabulary, std::mt19937& engine) {
  std::normal_distribution<float> body(0.0f, 2.5f);
  std::vector<float> row(static_cast<std::size_t>(vocabulary));
  for (float& x : row) x = body(engine);
  for (int i = 0; i < 30; ++i) row[engine() % row.size()] += 10.0f;
  return row;
}

struct Case {
  const char* name;
  SamplingOptions options;
  bool logprobs = false;
};

std::vector<Case> cases() {
  return {
      {"greedy", {}},
      {"top-k 40", {.temperature = 1.0f, .top_k = 40}},
      {"top-k 40, top-p 0.95, temperature 0.8", {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f}},
      {"the same with log-probabilities", {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f}, true},
      {"min-p 0.05", {.temperature = 1.0f, .min_p = 0.05f}},
      {"top-p 0.95", {.temperature = 0.7f, .top_p = 0.95f}},
      {"temperature 0.8 alone", {.temperature = 0.8f}},
      {"penalties, top-k 40", {.temperature = 1.0f, .top_k = 40, .repetition_penalty = 1.1f}},
      {"top-n-sigma 1", {.chain = {TopNSigma{}}}},
      {"typical-p 0.95", {.chain = {TypicalP{}}}},
      {"mirostat", {.chain = {Mirostat{}}}},
      {"mirostat 2", {.chain = {MirostatV2{}}}},
      {"min-p 0.05, adaptive-p", {.chain = {MinP{}, AdaptiveP{}}}},
  };
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int vocabulary = argc > 1 ? std::atoi(argv[1]) : 262144;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 200;
  if (vocabulary < 2 || rounds < 1) return 2;
  std::mt19937 engine(1);
  std::vector<std::vector<float>> rows;
  for (int i = 0; i < 8; ++i) rows.push_back(random_row(vocabulary, engine));
  std::vector<Token> history(512);
  for (Token& token : history) token = static_cast<Token>(engine() % static_cast<unsigned>(vocabulary));

  SamplerWorkspace workspace(vocabulary);
  for (const Case& c : cases()) {
    SamplerChain::Setup setup;
    setup.vocabulary = vocabulary;
    setup.context = 4096;
    setup.logprobs = c.logprobs;
    SamplerChain chain(c.options, setup);
    std::vector<double> micros;
    Draw draw;
    for (int i = 0; i < rounds; ++i) {
      const auto& row = rows[static_cast<std::size_t>(i) % rows.size()];
      const auto start = std::chrono::steady_clock::now();
      const SampleStatus status = chain.sample(workspace, row, history, draw);
      const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
      if (status != SampleStatus::ok) return 1;
      micros.push_back(elapsed.count());
    }
    std::printf("%-42s %9.1f us\n", c.name, median(micros));
  }
  return 0;
}
