// llminfer-bench: how fast a model loads, reads a prompt and generates, and how much of the memory's speed that is.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <llminfer/llminfer.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/batch.h"
#include "bench/measure.h"
#include "common/format.h"
#include "common/interrupt.h"
#include "common/model_options.h"
#include "common/program.h"
#include "common/progress.h"
#include "common/stopwatch.h"

namespace {

using namespace examples;
using json = nlohmann::ordered_json;

struct Options {
  ModelOptions model{};
  int prompt = 512;
  int generate = 128;
  int depth = 0;
  int rounds = 5;
  std::vector<int> batch{};
  bool as_json = false;
};

struct Rounds {
  std::vector<double> prefill{}, decode{}, bandwidth{};
  std::vector<std::vector<double>> batch{};  // one list an entry of Options::batch
};

struct Report {
  llminfer::DeviceInfo device{};
  llminfer::KvType keys = llminfer::KvType::f16, values = llminfer::KvType::f16;
  double load = 0, first_token = 0, bytes_per_token = 0;
  Rounds rounds{};
  double share() const { return bytes_per_token * median(rounds.decode) / median(rounds.bandwidth); }
};

// Weights that a step of one token reads: all, but of a separate embedding table only a row.
std::uint64_t weights_read(const Options& options, const llminfer::Model& model) {
  const auto file = llminfer::Model::inspect(llminfer::ModelSource::file(options.model.path)).value();
  std::uint64_t embedding = 0;
  bool separate_output = false;
  for (const auto& tensor : file.tensors) {
    if (tensor.name == "token_embd.weight") embedding = tensor.bytes;
    separate_output |= tensor.name == "output.weight";
  }
  const std::uint64_t all = model.info().memory.weights;
  return separate_output && embedding < all ? all - embedding : all;
}

// Each round has all runs, so that what disturbs the machine for a while disturbs the ratios less.
Rounds measure(const Options& options, const llminfer::Model& model, int threads, const std::stop_token& stop) {
  const auto processor = llminfer::Device::cpu({.threads = threads}).value();
  ProgressLine line(options.model.progress);
  Rounds rounds;
  rounds.batch.resize(options.batch.size());
  for (int round = 0; round < options.rounds; ++round) {
    line.show(print("round %d of %d", round + 1, options.rounds));
    if (options.prompt > 0) rounds.prefill.push_back(prefill_speed(model, options.prompt, stop));
    if (options.generate > 0) {
      rounds.decode.push_back(decode_speed(model, options.depth, options.generate, stop));
      rounds.bandwidth.push_back(llminfer::measure_ceilings(processor, {.seconds = 0.3}).value().all().read.best);
    }
    for (std::size_t i = 0; i < options.batch.size(); ++i) {
      rounds.batch[i].push_back(batch_speeds(model, {.sequences = options.batch[i]}, 1, stop).front());
    }
  }
  return rounds;
}

Report run(const Options& options, const std::stop_token& stop) {
  Report report;
  const llminfer::Device device = open_device(options.model);
  int context = std::max({options.prompt, options.depth + options.generate + 1, 21});
  int sequences = 1;
  for (const int n : options.batch) sequences = std::max(sequences, n);
  if (!options.batch.empty()) context = std::max(context, batch_prompt + batch_generate + 1);
  llminfer::LoadOptions load;
  load.context = context;
  load.max_sequences = std::max(load.max_sequences, sequences);
  load.max_step_tokens = std::max(load.max_step_tokens, sequences);
  const Stopwatch watch;
  const llminfer::Model model = load_model(options.model, device, load, stop);
  report.load = watch.seconds();
  report.device = device.info().value();  // what a device opens for a model is in its notes now
  report.keys = model.info().k;
  report.values = model.info().v;
  report.first_token = report.load + first_token_time(model, stop);
  report.rounds = measure(options, model, report.device.threads, stop);
  // Step i of `generate` reads the depth + i tokens before it and its own.
  const double mean_depth = options.depth + (options.generate + 1) / 2.0;
  report.bytes_per_token = static_cast<double>(weights_read(options, model)) +
                           static_cast<double>(model.info().memory.kv_per_token) * mean_depth;
  return report;
}

void print_json(const Options& options, const Report& report) {
  json all = {{"model", std::filesystem::path(options.model.path).filename().string()},
              {"isa", report.device.isa},
              {"threads", report.device.threads},
              {"keys", llminfer::to_string(report.keys)},
              {"values", llminfer::to_string(report.values)},
              {"load_s", report.load},
              {"first_token_s", report.first_token}};
  if (!report.device.notes.empty()) all["notes"] = report.device.notes;
  if (options.prompt > 0) {
    all["prefill"] = {{"tokens", options.prompt}, {"tokens_per_s", median(report.rounds.prefill)}};
  }
  if (options.generate > 0) {
    all["decode"] = {{"tokens_per_s", median(report.rounds.decode)},
                     {"bytes_per_token", report.bytes_per_token},
                     {"read_bandwidth_gb_s", median(report.rounds.bandwidth) / 1e9},
                     {"bandwidth_share", report.share()}};
  }
  for (std::size_t i = 0; i < options.batch.size(); ++i) {
    all["batch"].push_back({{"sequences", options.batch[i]}, {"tokens_per_s", median(report.rounds.batch[i])}});
  }
  std::puts(all.dump(2, ' ', false, json::error_handler_t::replace).c_str());
}

void print_text(const Options& options, const Report& report) {
  std::printf("%s on %s (%s, %d threads, keys %s, values %s), median of %d rounds\n",
              std::filesystem::path(options.model.path).filename().c_str(), report.device.name.c_str(),
              report.device.isa.c_str(), report.device.threads, llminfer::to_string(report.keys),
              llminfer::to_string(report.values), options.rounds);
  if (!report.device.notes.empty()) std::printf("%s\n", report.device.notes.c_str());
  std::printf("load         %10.3f s\nfirst token  %10.3f s (with loading; prompt of 20 tokens)\n", report.load,
              report.first_token);
  if (options.prompt > 0) {
    std::printf("prefill      %10.1f tokens/s (prompt of %d)\n", median(report.rounds.prefill), options.prompt);
  }
  if (options.generate > 0) {
    std::printf("decode       %10.1f tokens/s (%d after %d), %s a token: %.0f %% of %.1f GB/s\n",
                median(report.rounds.decode), options.generate, options.depth,
                bytes_text(static_cast<std::uint64_t>(report.bytes_per_token)).c_str(), 100 * report.share(),
                median(report.rounds.bandwidth) / 1e9);
  }
  for (std::size_t i = 0; i < options.batch.size(); ++i) {
    std::printf("batch of %-3d %9.1f tokens/s (%d after %d each)\n", options.batch[i], median(report.rounds.batch[i]),
                batch_generate, batch_prompt);
  }
}

int bench(const Options& options) try {
  const Interrupt interrupt;
  const Report report = run(options, interrupt.token());
  options.as_json ? print_json(options, report) : print_text(options, report);
  return exit_ok;
} catch (const llminfer::Exception& error) {
  if (error.error().code == llminfer::ErrorCode::cancelled) return exit_interrupted;
  throw;
}

void add_options(CLI::App& app, Options& options) {
  add_model_options(app, options.model);
  const CLI::Range tokens(0, 1 << 24);
  app.add_option("--prompt", options.prompt, "Prefill: tokens of the prompt; 0: no such run")
      ->check(tokens)
      ->capture_default_str();
  app.add_option("--generate", options.generate, "Decode: tokens generated; 0: no such run")
      ->check(tokens)
      ->capture_default_str();
  app.add_option("--depth", options.depth, "Decode: tokens in the session before")
      ->check(tokens)
      ->capture_default_str();
  app.add_option("--batch", options.batch,
                 "Also generate with so many sequences at once, e.g. 1,4,16: 64 tokens each after prompts of 128")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  app.add_option("--rounds", options.rounds, "Every figure is the median of so many runs")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--json", options.as_json, "A JSON object instead of text");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Measures how fast a model loads, reads a prompt and generates, and how much of the memory's speed that is.\n"
      "Read bandwidth is measured in the same rounds: as many threads as the model has read 256 MiB, or more than the "
      "last cache holds.",
      "llminfer-bench");
  Options options;
  add_options(app, options);
  return run_program(app, argc, argv, [&] { return bench(options); });
}
