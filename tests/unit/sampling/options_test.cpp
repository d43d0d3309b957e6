#include <limits>

#include "catch.h"
#include "fixtures.h"
#include "runtime/sampling/validate.h"

using namespace sampling_test;

namespace {

constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

// The message of the refusal, empty when the options are taken. The code must be invalid_argument.
std::string refusal(const SamplingOptions& options, bool has_bytes = true) {
  try {
    validate(options, 100, has_bytes);
  } catch (const Exception& e) {
    CHECK(e.error().code == ErrorCode::invalid_argument);
    return e.error().message;
  }
  return "";
}

void names(const SamplingOptions& options, const std::string& field, const std::string& value) {
  const std::string message = refusal(options);
  CAPTURE(message, field);
  CHECK(message.find(field) != std::string::npos);
  CHECK(message.find(value) != std::string::npos);
}

}  // namespace

TEST_CASE("Simple options out of range name the field and the value") {
  names({.temperature = -1.0f}, "sampling.temperature", "-1");
  names({.temperature = quiet_nan}, "sampling.temperature", "nan");
  names({.temperature = inf}, "sampling.temperature", "inf");
  names({.top_k = -1}, "sampling.top_k", "-1");
  names({.top_p = 1.5f}, "sampling.top_p", "1.5");
  names({.top_p = quiet_nan}, "sampling.top_p", "nan");
  names({.min_p = -0.25f}, "sampling.min_p", "-0.25");
  names({.repetition_penalty = 0.0f}, "sampling.repetition_penalty", "0");
  names({.presence_penalty = 101.0f}, "sampling.presence_penalty", "101");
  names({.frequency_penalty = quiet_nan}, "sampling.frequency_penalty", "nan");
  names({.logit_bias = {{100, 1.0f}}}, "sampling.logit_bias", "100");
  names({.logit_bias = {{3, inf}}}, "sampling.logit_bias", "inf");
  names({.logit_bias = {{3, quiet_nan}}}, "sampling.logit_bias", "nan");
  names({.banned_tokens = {-1}}, "sampling.banned_tokens", "-1");
  names({.banned_strings = {"x", ""}}, "sampling.banned_strings", "0 bytes");
  names({.banned_strings = {std::string(257, 'x')}}, "sampling.banned_strings", "257");
  names({.min_new_tokens = -5}, "sampling.min_new_tokens", "-5");
  names({.banned_tokens = std::vector<Token>(65537, 1)}, "sampling.banned_tokens", "65537");
}

TEST_CASE("Members of a chain out of range name place, sampler and field") {
  const auto in_chain = [](SamplerSpec spec, const std::string& field, const std::string& value) {
    names({.chain = {TopK{}, std::move(spec)}}, "sampling.chain[1] " + field, value);
  };
  in_chain(Temperature{-0.5f}, "Temperature.value", "-0.5");
  in_chain(DynamicTemperature{1, -1, 1}, "DynamicTemperature.range", "-1");
  in_chain(DynamicTemperature{1, 1, 0}, "DynamicTemperature.exponent", "0");
  in_chain(TopK{-7}, "TopK.k", "-7");
  in_chain(TopP{quiet_nan}, "TopP.p", "nan");
  in_chain(MinP{2}, "MinP.p", "2");
  in_chain(TypicalP{-1}, "TypicalP.p", "-1");
  in_chain(TopNSigma{0}, "TopNSigma.n", "0");
  in_chain(Xtc{2, 0.1f}, "Xtc.probability", "2");
  in_chain(Xtc{0.5f, quiet_nan}, "Xtc.threshold", "nan");
  in_chain(Dry{.multiplier = -1}, "Dry.multiplier", "-1");
  in_chain(Dry{.base = 0.5f}, "Dry.base", "0.5");
  in_chain(Dry{.allowed_length = -2}, "Dry.allowed_length", "-2");
  in_chain(Dry{.window = (1 << 24) + 1}, "Dry.window", "16777217");
  in_chain(Dry{.breakers = {""}}, "Dry.breakers", "0 bytes");
  in_chain(Mirostat{.tau = 0}, "Mirostat.tau", "0");
  in_chain(Mirostat{.m = 1}, "Mirostat.m", "1");
  in_chain(MirostatV2{.eta = 2}, "MirostatV2.eta", "2");
  in_chain(AdaptiveP{1.5f, 0.5f}, "AdaptiveP.target", "1.5");
  in_chain(AdaptiveP{0.5f, 1}, "AdaptiveP.decay", "1");
  in_chain(RepetitionPenalty{-1}, "RepetitionPenalty.value", "-1");
  in_chain(RepetitionPenalty{1.1f, -2}, "RepetitionPenalty.window", "-2");
  in_chain(PresencePenalty{quiet_nan}, "PresencePenalty.value", "nan");
  in_chain(FrequencyPenalty{1, 2000000000}, "FrequencyPenalty.window", "2000000000");
  in_chain(NoRepeatNgram{-1}, "NoRepeatNgram.size", "-1");
  in_chain(NoRepeatNgram{1025}, "NoRepeatNgram.size", "1025");
  in_chain(LogitBias{{{100, 0}}}, "LogitBias.biases", "100");
  in_chain(Custom{}, "Custom.prototype", "null");
}

TEST_CASE("Chains that contradict themselves") {
  names({.chain = {MirostatV2{}, TopK{}}}, "sampling.chain[0] MirostatV2", "last");
  names({.chain = {AdaptiveP{}, Temperature{}}}, "sampling.chain[0] AdaptiveP", "last");
  names({.temperature = 1.0f, .chain = {TopK{}}}, "sampling.temperature", "exclude");
  names({.top_p = 0.5f, .chain = {TopK{}}}, "sampling.top_p", "exclude");
  names({.frequency_penalty = 0.5f, .chain = {TopK{}}}, "sampling.frequency_penalty", "exclude");
  names({.chain = std::vector<SamplerSpec>(65, TopK{})}, "sampling.chain", "65");
}

TEST_CASE("Strings need the text of tokens") {
  CHECK(refusal({.banned_strings = {"x"}}, false).find("sampling.banned_strings") != std::string::npos);
  CHECK(refusal({.chain = {Dry{}}}, false).find("Dry.breakers") != std::string::npos);
  CHECK(refusal({.chain = {Dry{.breakers{}}}}, false).empty());
  CHECK(refusal({.chain = {Dry{.multiplier = 0}}}, false).empty());
}

TEST_CASE("The ends of the ranges are valid") {
  CHECK(refusal({}).empty());
  CHECK(refusal({.temperature = 0.0f, .top_k = 2147483647, .top_p = 0.0f, .min_p = 1.0f}).empty());
  CHECK(refusal({.logit_bias = {{99, -inf}}}).empty());
  CHECK(refusal({.chain = {RepetitionPenalty{1, 0}, Dry{}, NoRepeatNgram{0, -1}, TopK{0}, Mirostat{}}}).empty());
}

TEST_CASE("A chain needs a vocabulary and a context") {
  CHECK_THROWS_AS(SamplerChain({}, setup_for(0)), Exception);
  auto setup = setup_for(5);
  setup.context = 0;
  CHECK_THROWS_AS(SamplerChain({}, setup), Exception);
}
