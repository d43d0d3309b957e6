#include "sampling_options.h"

namespace examples {

void add_sampling_options(CLI::App& app, llminfer::SamplingOptions& sampling) {
  app.add_option_function<float>(
      "--temperature", [&sampling](float value) { sampling.temperature = value; },
      "0 takes the most probable token. Without it: 1 with --top-k, --top-p or --min-p, else 0");
  app.add_option("--top-k", sampling.top_k, "Draw from the k most probable tokens; 0: from all");
  app.add_option("--top-p", sampling.top_p, "Draw from the most probable tokens that make up p; 1: from all");
  app.add_option("--min-p", sampling.min_p, "Draw from tokens at least p times as probable as the best; 0: from all");
  app.add_option("--repetition-penalty", sampling.repetition_penalty, "Of tokens among the last 64; 1: none");
  app.add_option("--seed", sampling.seed, "Another seed, another text")->capture_default_str();
}

}  // namespace examples
