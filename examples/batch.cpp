// llminfer-batch: answers a file of prompts, many at a time, and writes a line of JSON for each.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <llminfer/chat.hpp>
#include <llminfer/llminfer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "batch/prompts.h"
#include "batch/results.h"
#include "common/format.h"
#include "common/interrupt.h"
#include "common/model_options.h"
#include "common/program.h"
#include "common/progress.h"
#include "common/sampling_options.h"
#include "common/stopwatch.h"

namespace {

using namespace examples;
using namespace std::chrono_literals;

struct Options {
  ModelOptions model{};
  std::string prompts{};
  std::string output = "-";
  std::string metrics{};
  bool json = false;
  bool special = false;
  bool chat = false;
  std::string system{};
  bool stats = false;
  int count = 1;
  int context = 0;
  int max_sequences = 16;
  int step_tokens = 256;
  std::uint64_t kv_bytes = 0;
  llminfer::GenerateOptions generate{};
};

void add_options(CLI::App& app, Options& options) {
  add_model_options(app, options.model);
  app.add_option("prompts", options.prompts, "File of prompts, one a line; - reads them from standard input")
      ->required();
  app.add_flag("--jsonl", options.json,
               "Lines are JSON objects: \"prompt\", and perhaps \"max_tokens\" and \"seed\". Known by a name that ends "
               "in .jsonl");
  app.add_flag("--special", options.special, "Control tokens spelled in the prompts (<|im_start|>) are taken as such");
  CLI::Option* chat =
      app.add_flag("--chat", options.chat, "Prompts are what a user says, in the model's chat template");
  app.add_option("--system", options.system, "What the system says before")->needs(chat);
  app.add_option("-o,--output", options.output, "File of answers, lines of JSON in the order of the prompts")
      ->capture_default_str();
  app.add_option("--metrics", options.metrics, "File for the statistics at the end, as Prometheus reads them");
  app.add_flag("--stats", options.stats, "Print rates and times on standard error at the end");
  app.add_option("--max-sequences", options.max_sequences, "Most prompts that are worked on at the same time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--step-tokens", options.step_tokens, "Most tokens of a step")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--kv-bytes", options.kv_bytes,
                 "Memory for keys and values, with k, m or g for its powers of 1024; 0: 1,024 tokens for each of the "
                 "sequences")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--context", options.context, "Most tokens of a prompt with its answer; 0: what the model has")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--count", options.count, "Answers to each prompt")->check(CLI::Range(1, 1024))->capture_default_str();
  llminfer::GenerateOptions& generate = options.generate;
  generate.max_tokens = 256;
  app.add_option("-n,--max-tokens", generate.max_tokens, "Most new tokens of an answer; -1: until the context is full")
      ->check(CLI::Range(-1, 1 << 30))
      ->capture_default_str();
  app.add_option("--stop", generate.stop, "End before this text; may be given several times")->allow_extra_args(false);
  add_sampling_options(app, generate.sampling);
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File open_output(const std::string& path) {
  if (path == "-") return {stdout, [](std::FILE*) { return 0; }};
  File file(std::fopen(path.c_str(), "wb"), &std::fclose);
  if (!file) throw std::runtime_error(path + " cannot be written");
  return file;
}

llminfer::Batcher start(const Options& options, const llminfer::Model& model) {
  llminfer::BatcherOptions batch;
  batch.max_sequences = options.max_sequences;
  batch.step_tokens = options.step_tokens;
  batch.queue = std::max(1024, 2 * options.count);
  batch.kv_bytes = options.kv_bytes;
  if (batch.kv_bytes == 0) {
    const auto tokens = static_cast<std::uint64_t>(options.max_sequences) *
                        static_cast<std::uint64_t>(std::min(1024, model.info().context));
    batch.kv_bytes = model.info().memory.kv_per_token * tokens;
  }
  return llminfer::Batcher::start(model, batch).value();
}

/// Serves the prompts of one stream.
class Service {
 public:
  Service(const Options& options, const llminfer::Model& model, std::FILE* out)
      : options_(options),
        model_(model),
        results_(out),
        batcher_(start(options, model)),
        line_(options.model.progress) {
    if (options.chat) {
      chat_ = llminfer::ChatTemplate::open(llminfer::ModelSource::file(options.model.path)).value();
    }
  }

  /// Exit code.
  int run(PromptReader& prompts, const std::stop_token& stop) {
    const Stopwatch watch;
    // Answers that wait for a slow one before them are kept in memory: no more prompts are open than some for each
    // sequence.
    const std::size_t open = std::max<std::size_t>(
        1, 4 * static_cast<std::size_t>(options_.max_sequences) / static_cast<std::size_t>(options_.count));
    while (!stop.stop_requested()) {
      const std::optional<Prompt> prompt = prompts.next();
      if (!prompt) break;
      submit(*prompt);
      while (!results_.wait(open, 100ms) && !stop.stop_requested()) show();
      show();
    }
    while (!stop.stop_requested() && !results_.wait(0, 100ms)) show();
    const bool interrupted = stop.stop_requested();
    const llminfer::BatchStats stats = batcher_->stats();
    batcher_.reset();  // ends what is left: its answers are written as they are
    line_.clear();
    if (options_.stats) print_stats(stats, watch.seconds());
    if (!options_.metrics.empty()) write_metrics(stats);
    if (interrupted) return exit_interrupted;
    if (results_.failed() == 0) return exit_ok;
    throw std::runtime_error(std::to_string(results_.failed()) + " answers to " + std::to_string(results_.all()) +
                             " prompts failed; their lines say why");
  }

 private:
  void submit(const Prompt& prompt) {
    if (!prompt.error.empty()) return results_.add_error(prompt.error);
    const llminfer::Result<std::vector<llminfer::Token>> tokens = encode(prompt.text);
    if (!tokens) return results_.add_error(tokens.error().message);
    llminfer::Session session = batcher_->open_session({.context = options_.context}).value();
    const llminfer::Result<void> appended = session.append(*tokens);
    if (!appended) return results_.add_error(appended.error().message);
    llminfer::GenerateOptions generate = options_.generate;
    if (prompt.max_tokens) generate.max_tokens = *prompt.max_tokens;
    if (prompt.seed) generate.sampling.seed = *prompt.seed;
    const std::size_t number = results_.add(options_.count);
    Results* const results = &results_;
    const auto submitted = batcher_->submit_many(
        std::move(session), options_.count, generate,
        [results, number](int i, const llminfer::Piece& piece) {
          results->append(number, i, piece.text);
          return true;
        },
        [results, number](int i, llminfer::Result<llminfer::Outcome> outcome, llminfer::Session) {
          results->end(number, i, std::move(outcome));
        });
    if (submitted) return;
    for (int i = 0; i < options_.count; ++i) results_.end(number, i, submitted.error());
  }

  llminfer::Result<std::vector<llminfer::Token>> encode(const std::string& text) const {
    if (!chat_) {
      const auto special = options_.special ? llminfer::SpecialText::parse : llminfer::SpecialText::none;
      return model_.tokenizer().encode(text, {.special = special});
    }
    std::vector<llminfer::ChatMessage> messages;
    if (!options_.system.empty()) messages.push_back({.role = "system", .content = options_.system});
    messages.push_back({.role = "user", .content = text});
    const llminfer::Result<llminfer::ChatPrompt> rendered = chat_->render(messages);
    if (!rendered) return rendered.error();
    return rendered->encode(model_.tokenizer());
  }

  void show() {
    const llminfer::BatchStats stats = batcher_->stats();
    line_.show(print("%zu of %zu prompts answered, %d sequences run, %d wait, %.1f tokens/s, pages %d of %d",
                     results_.done(), results_.all(), stats.running, stats.queued + stats.preempted,
                     stats.generated_per_second, stats.pages_used, stats.pages_total));
  }

  void print_stats(const llminfer::BatchStats& stats, double seconds) const {
    const auto ms = [](std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e6; };
    std::fprintf(
        stderr,
        "%zu prompts in %.2f s; new: %llu tokens, %.1f/s; computed: %llu; first token after %.0f ms (median), "
        "%.0f ms (95 %%); between tokens %.1f ms (median), %.1f ms (95 %%); preempted %llu; scheduling %.2f %% "
        "of the time\n",
        results_.all(), seconds, static_cast<unsigned long long>(stats.generated_tokens),
        static_cast<double>(stats.generated_tokens) / seconds,
        static_cast<unsigned long long>(stats.prefill_tokens + stats.decode_tokens),
        ms(stats.time_to_first_token.quantile(0.5)), ms(stats.time_to_first_token.quantile(0.95)),
        ms(stats.time_between_tokens.quantile(0.5)), ms(stats.time_between_tokens.quantile(0.95)),
        static_cast<unsigned long long>(stats.preemptions), 100 * stats.scheduling_share());
  }

  void write_metrics(const llminfer::BatchStats& stats) const {
    const std::string text = llminfer::to_prometheus(stats).value();
    const File file = open_output(options_.metrics);
    if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() || std::fflush(file.get()) != 0) {
      throw std::runtime_error(options_.metrics + " cannot be written");
    }
  }

  const Options& options_;
  const llminfer::Model& model_;
  std::optional<llminfer::ChatTemplate> chat_;
  Results results_;
  std::optional<llminfer::Batcher> batcher_;  // its callbacks use what is above
  ProgressLine line_;
};

int batch(const Options& options) {
  const Interrupt interrupt;
  std::ifstream file;
  if (options.prompts != "-") {
    file.open(options.prompts);
    if (!file) throw UsageError(options.prompts + " cannot be read");
  }
  const bool json = options.json || options.prompts.ends_with(".jsonl");
  PromptReader prompts(options.prompts == "-" ? std::cin : file, json);
  const File out = open_output(options.output);
  const llminfer::Device device = open_device(options.model);
  llminfer::LoadOptions load;
  load.context = options.context;
  load.max_sequences = options.max_sequences;
  load.max_step_tokens = std::max(options.step_tokens, options.max_sequences);
  const llminfer::Model model = load_model(options.model, device, load, interrupt.token());
  const int code = Service(options, model, out.get()).run(prompts, interrupt.token());
  if (std::fflush(out.get()) != 0) throw std::runtime_error(options.output + " cannot be written");
  return code;
}

// A stop request while loading arrives as an error, but the user knows.
int batch_or_interrupted(const Options& options) try {
  return batch(options);
} catch (const llminfer::Exception& error) {
  if (error.error().code == llminfer::ErrorCode::cancelled) return exit_interrupted;
  throw;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Answers a file of prompts, many at a time, and writes a line of JSON for each.", "llminfer-batch");
  Options options;
  add_options(app, options);
  return run_program(app, argc, argv, [&] { return batch_or_interrupted(options); });
}
