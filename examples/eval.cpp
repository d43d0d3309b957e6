// llminfer-eval: how well a model predicts a text (perplexity), or everything it says of many texts (--jsonl).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <llminfer/llminfer.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "common/format.h"
#include "common/interrupt.h"
#include "common/model_options.h"
#include "common/program.h"
#include "common/progress.h"
#include "common/stopwatch.h"
#include "eval/kv_divergence.h"
#include "eval/perplexity.h"
#include "eval/rows.h"

namespace {

using namespace examples;
using json = nlohmann::ordered_json;

struct Options {
  ModelOptions model{};
  std::string text_file{};
  std::string jsonl_file{};
  PerplexityOptions perplexity{};
  RowOptions rows{};
  int kv_divergence = 0;
  bool as_json = false;
};

std::ifstream open_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + " cannot be read");
  return file;
}

void print_line(const json& object) {
  std::puts(object.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
  std::fflush(stdout);
}

int run_perplexity(const Options& options, const llminfer::Model& model, const std::stop_token& stop) {
  std::ifstream file = open_file(options.text_file);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  PerplexityOptions perplexity_options = options.perplexity;
  perplexity_options.window = std::min(perplexity_options.window, model.info().context);
  const Stopwatch watch;
  const Perplexity found = perplexity(model, text, perplexity_options, stop);
  const double bits_per_byte = found.nll / std::log(2.0) / static_cast<double>(found.text_bytes);
  if (options.as_json) {
    print_line({{"perplexity", found.per_token()},
                {"nll", found.nll},
                {"tokens", found.tokens},
                {"scored", found.scored},
                {"bits_per_byte", bits_per_byte},
                {"context", perplexity_options.window}});
  } else {
    std::printf("perplexity %.4f over %zu tokens (%.4f nats a token, %.4f bits a byte), windows of %d, %.1f s\n",
                found.per_token(), found.scored, found.nll / static_cast<double>(found.scored), bits_per_byte,
                perplexity_options.window, watch.seconds());
  }
  return exit_ok;
}

int run_rows(const Options& options, const llminfer::Model& model, const std::stop_token& stop) {
  std::ifstream file = open_file(options.jsonl_file);
  ProgressLine line(options.model.progress);
  int number = 0;
  for (std::string input; std::getline(file, input);) {
    ++number;
    if (input.empty()) continue;
    line.show("line " + std::to_string(number));
    try {
      const json object = json::parse(input);
      json row = evaluate(model, object.at("text").get<std::string>(), options.rows, stop);
      line.clear();
      print_line(row);
    } catch (const json::exception& error) {
      throw std::runtime_error(options.jsonl_file + ":" + std::to_string(number) + ": " + error.what());
    }
  }
  if (file.bad()) throw std::runtime_error(options.jsonl_file + " cannot be read");
  return exit_ok;
}

int run_kv_divergence(const Options& options, const std::stop_token& stop) {
  std::ifstream file = open_file(options.text_file);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const llminfer::Device device = open_device(options.model);
  const auto open = [&](llminfer::KvType k, llminfer::KvType v) {
    llminfer::LoadOptions load = load_options(options.model, device);
    load.k = k;
    load.v = v;
    return llminfer::Model::open(llminfer::ModelSource::file(options.model.path), load, stop).value();
  };
  const auto found =
      kv_divergence(open, text, {options.kv_divergence, options.perplexity.window, options.perplexity.progress}, stop);
  if (!options.as_json) std::puts("K     V        mean KL   largest  same best  nll + a token");
  for (const KvDivergence& d : found) {
    if (options.as_json) {
      print_line({{"k", to_string(d.k)},
                  {"v", to_string(d.v)},
                  {"positions", d.positions},
                  {"mean_kl", d.mean},
                  {"largest_kl", d.largest},
                  {"same_best", d.same_best},
                  {"nll_increase", d.nll_increase}});
    } else {
      std::printf("%-5s %-5s %10.2e %9.2e %9.2f%% %14.5f\n", to_string(d.k), to_string(d.v), d.mean, d.largest,
                  100 * d.same_best, d.nll_increase);
    }
  }
  return exit_ok;
}

int eval(const Options& options) try {
  const Interrupt interrupt;
  if (options.text_file.empty() == options.jsonl_file.empty()) {
    throw UsageError("either TEXTFILE or --jsonl FILE is needed");
  }
  (void)open_file(options.text_file.empty() ? options.jsonl_file : options.text_file);  // before the long part
  if (options.kv_divergence > 0) {
    if (options.text_file.empty()) throw UsageError("--kv-divergence needs TEXTFILE");
    return run_kv_divergence(options, interrupt.token());
  }
  const llminfer::Model model = load_model(options.model, open_device(options.model), {}, interrupt.token());
  return options.jsonl_file.empty() ? run_perplexity(options, model, interrupt.token())
                                    : run_rows(options, model, interrupt.token());
} catch (const llminfer::Exception& error) {
  if (error.error().code == llminfer::ErrorCode::cancelled) return exit_interrupted;
  throw;
}

void add_options(CLI::App& app, Options& options) {
  add_model_options(app, options.model);
  app.add_option("textfile", options.text_file, "Text whose perplexity is computed");
  app.add_option("--context", options.perplexity.window, "Perplexity: tokens of a window, at most the model's context")
      ->check(CLI::Range(3, 1 << 30))
      ->capture_default_str();
  app.add_option("--stride", options.perplexity.stride, "Perplexity: tokens scored by a window; 0: half of --context")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--kv-divergence", options.kv_divergence,
                 "Instead of perplexity: how far each format of keys and values, K and V one at a time and both, moves "
                 "the probabilities from those of f32, over so many tokens of the text")
      ->check(CLI::Range(0, 1 << 20));
  app.add_flag("--json", options.as_json, "Perplexity as a JSON object");
  app.add_option("--jsonl", options.jsonl_file,
                 "Read objects with a \"text\", one a line, and write one object a line: text, tokens, top (the most "
                 "probable next tokens of each position with log-probabilities), nll, greedy (the most probable "
                 "continuation), gap (best minus second logit at each of its steps), greedy_text");
  app.add_option("--top", options.rows.top, "--jsonl: tokens listed per position")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--greedy", options.rows.greedy, "--jsonl: most tokens of the continuation")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Perplexity of a text, or (--jsonl) everything a model says of many texts.\n"
      "Perplexity: windows of --context tokens advance by --stride; each starts from nothing (with a BOS where the\n"
      "model wants one) and scores its last --stride tokens, the first one all. Every token is predicted once.",
      "llminfer-eval");
  Options options;
  add_options(app, options);
  return run_program(app, argc, argv, [&] {
    options.perplexity.progress = options.model.progress;
    return eval(options);
  });
}
