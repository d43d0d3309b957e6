#include "runtime/sampling/validate.h"

#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "core/fail.h"

namespace llminfer::runtime {
namespace {

constexpr int max_window = 1 << 24;
constexpr std::size_t max_links = 64;
constexpr std::size_t max_listed_tokens = 65536;
constexpr std::size_t max_strings = 256;
constexpr std::size_t max_string_bytes = 256;

// The checks of one sampler; `path` is what the caller wrote to reach it.
class Checker {
 public:
  Checker(std::string path, int vocabulary, bool has_bytes)
      : path_(std::move(path)), vocabulary_(vocabulary), has_bytes_(has_bytes) {}

  void within(std::string_view field, float value, float low, float high) const {
    if (!(value >= low && value <= high)) {
      core::fail(ErrorCode::invalid_argument, "{}{} must be within {} .. {}, got {}", path_, field, low, high, value);
    }
  }
  void above_zero(std::string_view field, float value, float high) const {
    if (!(value > 0 && value <= high)) {
      core::fail(ErrorCode::invalid_argument, "{}{} must be above 0 and at most {}, got {}", path_, field, high, value);
    }
  }
  void integer(std::string_view field, int value, int low, int high) const {
    if (value < low || value > high) {
      core::fail(ErrorCode::invalid_argument, "{}{} must be within {} .. {}, got {}", path_, field, low, high, value);
    }
  }
  void window(int value) const { integer("window", value, -1, max_window); }
  void count(std::string_view field, std::size_t value, std::size_t high) const {
    if (value > high) {
      core::fail(ErrorCode::invalid_argument, "{}{} has {} entries, at most {} are allowed", path_, field, value, high);
    }
  }
  void token(std::string_view field, Token value) const {
    if (value < 0 || value >= vocabulary_) {
      core::fail(ErrorCode::invalid_argument, "{}{} has token {}, the vocabulary has ids 0 .. {}", path_, field, value,
                 vocabulary_ - 1);
    }
  }
  void strings(std::string_view field, const std::vector<std::string>& values) const {
    count(field, values.size(), max_strings);
    for (const std::string& value : values) {
      if (value.empty() || value.size() > max_string_bytes) {
        core::fail(ErrorCode::invalid_argument, "{}{} has a string of {} bytes, 1 .. {} are allowed", path_, field,
                   value.size(), max_string_bytes);
      }
    }
    if (!values.empty() && !has_bytes_) {
      core::fail(ErrorCode::invalid_argument, "{}{} needs the text of tokens, and the model has no tokenizer", path_,
                 field);
    }
  }
  void biases(std::string_view field, const std::vector<TokenBias>& values) const {
    count(field, values.size(), max_listed_tokens);
    for (const TokenBias& value : values) {
      token(field, value.token);
      const bool ban = value.bias == -std::numeric_limits<float>::infinity();
      if (!ban && !(std::abs(value.bias) <= 1e6f)) {
        core::fail(ErrorCode::invalid_argument, "{}{} must be -inf or within -1e6 .. 1e6, got {} for token {}", path_,
                   field, value.bias, value.token);
      }
    }
  }

  void operator()(const Greedy&) const {}
  void operator()(const Temperature& s) const { within("value", s.value, 0, 1e6f); }
  void operator()(const DynamicTemperature& s) const {
    within("value", s.value, 0, 1e6f);
    within("range", s.range, 0, 1e6f);
    above_zero("exponent", s.exponent, 100);
  }
  void operator()(const TopK& s) const { integer("k", s.k, 0, std::numeric_limits<int>::max()); }
  void operator()(const TopP& s) const { within("p", s.p, 0, 1); }
  void operator()(const MinP& s) const { within("p", s.p, 0, 1); }
  void operator()(const TypicalP& s) const { within("p", s.p, 0, 1); }
  void operator()(const TopNSigma& s) const { above_zero("n", s.n, 1e6f); }
  void operator()(const Xtc& s) const {
    within("probability", s.probability, 0, 1);
    within("threshold", s.threshold, 0, 1);
  }
  void operator()(const Dry& s) const {
    within("multiplier", s.multiplier, 0, 1000);
    within("base", s.base, 1, 100);
    integer("allowed_length", s.allowed_length, 0, max_window);
    window(s.window);
    if (s.multiplier > 0 && s.window != 0) strings("breakers", s.breakers);
  }
  void operator()(const Mirostat& s) const {
    above_zero("tau", s.tau, 100);
    within("eta", s.eta, 0, 1);
    integer("m", s.m, 2, 65536);
  }
  void operator()(const MirostatV2& s) const {
    above_zero("tau", s.tau, 100);
    within("eta", s.eta, 0, 1);
  }
  void operator()(const AdaptiveP& s) const {
    within("target", s.target, 0, 1);
    within("decay", s.decay, 0, 0.99f);
  }
  void operator()(const RepetitionPenalty& s) const {
    above_zero("value", s.value, 100);
    window(s.window);
  }
  void operator()(const PresencePenalty& s) const {
    within("value", s.value, -100, 100);
    window(s.window);
  }
  void operator()(const FrequencyPenalty& s) const {
    within("value", s.value, -100, 100);
    window(s.window);
  }
  void operator()(const NoRepeatNgram& s) const {
    integer("size", s.size, 0, 1024);
    window(s.window);
  }
  void operator()(const LogitBias& s) const { biases("biases", s.biases); }
  void operator()(const Custom& s) const {
    if (!s.prototype) core::fail(ErrorCode::invalid_argument, "{}prototype must not be null", path_);
  }

 private:
  std::string path_;
  int vocabulary_;
  bool has_bytes_;
};

// What a chain's element is called in messages.
struct Name {
  const char* operator()(const Greedy&) const { return "Greedy"; }
  const char* operator()(const Temperature&) const { return "Temperature"; }
  const char* operator()(const DynamicTemperature&) const { return "DynamicTemperature"; }
  const char* operator()(const TopK&) const { return "TopK"; }
  const char* operator()(const TopP&) const { return "TopP"; }
  const char* operator()(const MinP&) const { return "MinP"; }
  const char* operator()(const TypicalP&) const { return "TypicalP"; }
  const char* operator()(const TopNSigma&) const { return "TopNSigma"; }
  const char* operator()(const Xtc&) const { return "Xtc"; }
  const char* operator()(const Dry&) const { return "Dry"; }
  const char* operator()(const Mirostat&) const { return "Mirostat"; }
  const char* operator()(const MirostatV2&) const { return "MirostatV2"; }
  const char* operator()(const AdaptiveP&) const { return "AdaptiveP"; }
  const char* operator()(const RepetitionPenalty&) const { return "RepetitionPenalty"; }
  const char* operator()(const PresencePenalty&) const { return "PresencePenalty"; }
  const char* operator()(const FrequencyPenalty&) const { return "FrequencyPenalty"; }
  const char* operator()(const NoRepeatNgram&) const { return "NoRepeatNgram"; }
  const char* operator()(const LogitBias&) const { return "LogitBias"; }
  const char* operator()(const Custom&) const { return "Custom"; }
};

// These watch the token that is finally drawn, so nothing may change the candidates after them.
bool must_be_last(const SamplerSpec& spec) {
  return std::holds_alternative<Mirostat>(spec) || std::holds_alternative<MirostatV2>(spec) ||
         std::holds_alternative<AdaptiveP>(spec);
}

void check_chain(const SamplingOptions& options, int vocabulary, bool has_bytes) {
  const auto& chain = options.chain;
  if (chain.size() > max_links) {
    core::fail(ErrorCode::invalid_argument, "sampling.chain has {} entries, at most {} are allowed", chain.size(),
               max_links);
  }
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const char* name = std::visit(Name{}, chain[i]);
    std::visit(Checker(fmt::format("sampling.chain[{}] {}.", i, name), vocabulary, has_bytes), chain[i]);
    if (must_be_last(chain[i]) && i + 1 != chain.size()) {
      core::fail(ErrorCode::invalid_argument,
                 "sampling.chain[{}] {} must be the last of the chain, which has {} entries", i, name, chain.size());
    }
  }
  if (chain.empty()) return;
  const auto alone = [](bool unset, const char* field) {
    if (!unset) core::fail(ErrorCode::invalid_argument, "sampling.{} and sampling.chain exclude each other", field);
  };
  alone(!options.temperature, "temperature");
  alone(options.top_k == 0, "top_k");
  alone(options.top_p == 1, "top_p");
  alone(options.min_p == 0, "min_p");
  alone(options.repetition_penalty == 1, "repetition_penalty");
  alone(options.presence_penalty == 0, "presence_penalty");
  alone(options.frequency_penalty == 0, "frequency_penalty");
}

}  // namespace

void validate(const SamplingOptions& options, int vocabulary, bool has_bytes) {
  const Checker check("sampling.", vocabulary, has_bytes);
  if (options.temperature) check.within("temperature", *options.temperature, 0, 1e6f);
  check.integer("top_k", options.top_k, 0, std::numeric_limits<int>::max());
  check.within("top_p", options.top_p, 0, 1);
  check.within("min_p", options.min_p, 0, 1);
  check.above_zero("repetition_penalty", options.repetition_penalty, 100);
  check.within("presence_penalty", options.presence_penalty, -100, 100);
  check.within("frequency_penalty", options.frequency_penalty, -100, 100);
  check_chain(options, vocabulary, has_bytes);
  check.biases("logit_bias", options.logit_bias);
  check.count("banned_tokens", options.banned_tokens.size(), max_listed_tokens);
  for (const Token token : options.banned_tokens) check.token("banned_tokens", token);
  check.strings("banned_strings", options.banned_strings);
  check.integer("min_new_tokens", options.min_new_tokens, 0, max_window);
}

}  // namespace llminfer::runtime
