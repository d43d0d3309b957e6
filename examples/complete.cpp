// llminfer-complete: continues a text, and prints the continuation as it comes.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <llminfer/llminfer.hpp>
#include <string>
#include <vector>

#include "common/format.h"
#include "common/interrupt.h"
#include "common/model_options.h"
#include "common/program.h"
#include "common/sampling_options.h"
#include "common/stopwatch.h"

namespace {

using namespace examples;

struct Options {
  ModelOptions model{};
  std::string prompt{};
  bool special = false;
  bool echo = false;
  bool stats = false;
  int context = 0;
  llminfer::GenerateOptions generate{};
};

struct Timing {
  double load = 0;
  double prompt = 0;       // computing the prompt
  double first_token = 0;  // from the start of the program
  double generation = 0;   // all new tokens
  int prompt_tokens = 0;
};

void add_options(CLI::App& app, Options& options) {
  add_model_options(app, options.model);
  app.add_option("-p,--prompt", options.prompt, "Text to continue; - reads it from standard input")->required();
  app.add_flag("--special", options.special, "Control tokens spelled in the prompt (<|im_start|>) are taken as such");
  app.add_flag("--echo", options.echo, "Print the prompt first");
  app.add_flag("--stats", options.stats, "Print counts and times on standard error at the end");
  app.add_option("--context", options.context, "Most tokens, prompt included; 0: as many as needed")
      ->check(CLI::NonNegativeNumber);
  llminfer::GenerateOptions& generate = options.generate;
  generate.max_tokens = 256;
  app.add_option("-n,--max-tokens", generate.max_tokens, "Most new tokens; -1: until the context is full")
      ->check(CLI::Range(-1, 1 << 30))
      ->capture_default_str();
  app.add_option("--stop", generate.stop, "End before this text; may be given several times")->allow_extra_args(false);
  add_sampling_options(app, generate.sampling);
}

std::string prompt_of(const Options& options) {
  if (options.prompt != "-") return options.prompt;
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

// Room for what was asked and not the model's whole context, which may be gigabytes of keys and values.
int session_context(const Options& options, const llminfer::Model& model, std::size_t prompt_tokens) {
  if (options.context > 0 || options.generate.max_tokens < 0) return options.context;
  const std::size_t wanted = prompt_tokens + static_cast<std::size_t>(options.generate.max_tokens);
  const auto most = static_cast<std::size_t>(model.info().context);
  return static_cast<int>(std::min(std::max(wanted, std::size_t{1}), most));
}

void write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void print_stats(const Timing& timing, const llminfer::Outcome& outcome) {
  const int steps = outcome.new_tokens - 1;  // the first token comes with the prompt
  std::fprintf(stderr,
               "loaded in %.2f s; first token after %.2f s; prompt: %d tokens, %.1f/s; new: %d tokens, %.1f/s; "
               "ended by %s\n",
               timing.load, timing.first_token, timing.prompt_tokens, timing.prompt_tokens / timing.prompt,
               outcome.new_tokens, steps > 0 ? steps / timing.generation : 0.0, llminfer::to_string(outcome.finish));
}

int generate(const Options& options, llminfer::Session& session, std::stop_token stop, const Stopwatch& total,
             Timing& timing) {
  llminfer::Generator generator = session.generate(options.generate).value();
  Stopwatch watch;
  for (const llminfer::Piece* piece; (piece = generator.next(stop).value()) != nullptr;) {
    if (timing.first_token == 0) {
      timing.first_token = total.seconds();
      watch.restart();
    }
    write(piece->text);
  }
  timing.generation = watch.seconds();
  const llminfer::Outcome& outcome = generator.outcome();
  write("\n");
  if (options.stats) print_stats(timing, outcome);
  return outcome.finish == llminfer::Finish::cancelled ? exit_interrupted : exit_ok;
}

int complete(const Options& options) {
  const Interrupt interrupt;
  const std::string text = prompt_of(options);
  const Stopwatch total;
  Timing timing;
  const llminfer::Device device = open_device(options.model);
  const llminfer::Model model = load_model(options.model, device, {.context = options.context}, interrupt.token());
  timing.load = total.seconds();

  const auto special = options.special ? llminfer::SpecialText::parse : llminfer::SpecialText::none;
  const std::vector<llminfer::Token> prompt = model.tokenizer().encode(text, {.special = special}).value();
  if (prompt.empty()) throw UsageError("--prompt has no tokens for this model, there is nothing to continue");
  timing.prompt_tokens = static_cast<int>(prompt.size());
  llminfer::Session session =
      llminfer::Session::open(model, {.context = session_context(options, model, prompt.size())}).value();
  if (options.echo) write(text);

  const Stopwatch watch;
  session.append(prompt).value();
  session.prefill(interrupt.token()).value();
  timing.prompt = watch.seconds();
  return generate(options, session, interrupt.token(), total, timing);
}

// A stop request while loading or reading the prompt arrives as an error, but the user knows.
int complete_or_interrupted(const Options& options) try {
  return complete(options);
} catch (const llminfer::Exception& error) {
  if (error.error().code == llminfer::ErrorCode::cancelled) return exit_interrupted;
  throw;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Continues a text, and prints the continuation as it comes.", "llminfer-complete");
  Options options;
  add_options(app, options);
  return run_program(app, argc, argv, [&] { return complete_or_interrupted(options); });
}
