// llminfer-chat: a conversation with a model, in a terminal or through pipes.
//
// Every line of standard input is a message or a command. Answers go to standard output, each ended by a newline, notes
// in brackets to standard error; a prompt is shown on a terminal only.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <llminfer/llminfer.hpp>
#include <optional>
#include <string>

#include "chat/console.h"
#include "chat/conversation.h"
#include "chat/ctrl_c.h"
#include "common/model_options.h"
#include "common/program.h"

namespace {

using namespace examples;

constexpr int default_context = 8192;

// Those that were given take the place of what the model recommends.
struct Sampling {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int> top_k;
  std::uint64_t seed = 0;
};

struct Options {
  ModelOptions model{};
  std::string system{};
  std::string chat_template{};
  int context = 0;
  bool stats = false;
  Sampling sampling{};
  llminfer::GenerateOptions generate{};
};

void add_sampling_options(CLI::App& app, Options& options) {
  Sampling& sampling = options.sampling;
  app.add_option("--temperature", sampling.temperature,
                 "0 takes the most probable token, which is the default; what the model's file recommends goes before");
  app.add_option("--top-k", sampling.top_k, "Draw from the k most probable tokens; 0: from all");
  app.add_option("--top-p", sampling.top_p, "Draw from the most probable tokens that make up p; 1: from all");
  app.add_option("--min-p", sampling.min_p, "Draw from tokens at least p times as probable as the best; 0: from all");
  app.add_option("--repetition-penalty", sampling.repetition_penalty, "Of tokens among the last 64; 1: none");
  app.add_option("--seed", sampling.seed, "Another seed, another text")->capture_default_str();
}

void add_options(CLI::App& app, Options& options) {
  add_model_options(app, options.model);
  app.add_option("--system", options.system, "System prompt");
  app.add_option("--template", options.chat_template,
                 "Chat template instead of the model's own: chatml, or a file (Jinja)");
  app.add_option("--context", options.context, "Most tokens of the conversation; 0: the model's, at most 8192")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--stats", options.stats, "After each answer, counts and times on standard error");
  llminfer::GenerateOptions& generate = options.generate;
  app.add_option("-n,--max-tokens", generate.max_tokens, "Most tokens of an answer; -1: until the context is full")
      ->check(CLI::Range(-1, 1 << 30))
      ->capture_default_str();
  app.add_option("--min-tokens", generate.sampling.min_new_tokens, "Fewest tokens of an answer")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--stop", generate.stop, "End an answer before this text; may be given several times")
      ->allow_extra_args(false);
  add_sampling_options(app, options);
}

llminfer::SamplingOptions sampling_of(const Options& options, const llminfer::ModelInfo& info) {
  const Sampling& given = options.sampling;
  llminfer::SamplingOptions out = info.sampling;
  if (given.temperature) out.temperature = *given.temperature;
  if (given.top_k) out.top_k = *given.top_k;
  if (given.top_p) out.top_p = *given.top_p;
  if (given.min_p) out.min_p = *given.min_p;
  if (given.repetition_penalty) out.repetition_penalty = *given.repetition_penalty;
  out.seed = given.seed;
  out.min_new_tokens = options.generate.sampling.min_new_tokens;
  return out;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.good() && !in.eof()) throw UsageError("--template: cannot read " + path + ", and only chatml is built in");
  return text;
}

// Spellings for a template that does not come from the model's file.
llminfer::ChatTokens template_tokens(const llminfer::Tokenizer& tokenizer) {
  llminfer::ChatTokens tokens;
  const auto add = [&](const char* name, std::optional<llminfer::Token> id) {
    if (id) tokens.emplace_back(name, tokenizer.token_to_bytes(*id).value());
  };
  add("bos_token", tokenizer.bos());
  add("eos_token", tokenizer.eos());
  add("unk_token", tokenizer.unknown());
  return tokens;
}

// The model's own template, or the one that was asked for: nothing stands in for one that is missing or broken.
llminfer::ChatTemplate open_template(const Options& options, const llminfer::ModelSource& source) {
  if (options.chat_template.empty()) {
    llminfer::Result<llminfer::ChatTemplate> own = llminfer::ChatTemplate::open(source);
    const bool none = !own && own.error().code == llminfer::ErrorCode::not_found;
    if (!none || !std::filesystem::exists(options.model.path)) return std::move(own).value();
    throw std::runtime_error(own.error().message + " (--template asks for another one: chatml, or a file)");
  }
  llminfer::ChatTokens tokens = template_tokens(llminfer::Tokenizer::open(source).value());
  if (options.chat_template == "chatml") {
    return llminfer::ChatTemplate::builtin("chatml", std::move(tokens)).value();
  }
  return llminfer::ChatTemplate::parse(read_file(options.chat_template), std::move(tokens)).value();
}

int chat(Options options) {
  CtrlC ctrl_c;
  const llminfer::ModelSource source = llminfer::ModelSource::file(options.model.path);
  llminfer::ChatTemplate chat_template = open_template(options, source);
  const llminfer::Device device = open_device(options.model);
  std::optional<llminfer::Model> model;
  {
    const CtrlC::Work work(ctrl_c);
    model = load_model(options.model, device, {.context = options.context, .max_sequences = 1}, work.token());
  }
  const llminfer::ModelInfo& info = model->info();
  const int context = options.context > 0 ? options.context : std::min(info.context, default_context);
  Conversation conversation(*model, std::move(chat_template),
                            llminfer::Session::open(*model, {.context = context}).value(), options.system);
  options.generate.sampling = sampling_of(options, info);
  const std::string name =
      info.name.empty() ? std::filesystem::path(options.model.path).filename().string() : info.name;
  return Console(conversation, ctrl_c, name, options.generate, options.stats).run();
}

// Ctrl-C while loading arrives as an error, but the user knows.
int chat_or_interrupted(const Options& options) try { return chat(options); } catch (const llminfer::Exception& error) {
  if (error.error().code == llminfer::ErrorCode::cancelled) return exit_interrupted;
  throw;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A conversation with a model. Every line is a message, or a command: /help lists them.",
               "llminfer-chat");
  Options options;
  add_options(app, options);
  return run_program(app, argc, argv, [&] { return chat_or_interrupted(options); });
}
