// Against tests/golden/sampling/make_goldens.py, an implementation of its own in NumPy.
#include <fstream>
#include <sstream>

#include "catch.h"
#include "fixtures.h"
#include "runtime/sampling/links.h"

using namespace sampling_test;

namespace {

using Pairs = std::vector<std::pair<Token, double>>;
using Chains = std::map<std::string, std::vector<SamplerSpec>>;

const std::vector<Token> prompt{5, 6, 7, 8, 90, 5, 6, 7, 9, 90, 8, 5, 6, 7};
constexpr int vocabulary = 97;

Letters texts() { return Letters({{90, "\n"}, {91, "w\n"}, {92, "v<"}, {93, ">u"}}); }

// Lines "name <tab> token:value token:value ..." in file order.
std::vector<std::pair<std::string, Pairs>> read(const std::string& file) {
  std::vector<std::pair<std::string, Pairs>> lines;
  std::ifstream in(std::string(GOLDEN_DIR "/") + file);
  for (std::string line; std::getline(in, line);) {
    const auto tab = line.find('\t');
    std::istringstream values(line.substr(tab + 1));
    Pairs pairs;
    Token token = 0;
    char colon = 0;
    double value = 0;
    while (values >> token >> colon >> value) pairs.emplace_back(token, value);
    lines.emplace_back(line.substr(0, tab), pairs);
  }
  return lines;
}

Chains single_chains() {
  return {
      {"greedy", {Greedy{}}},
      {"temperature 0.7", {Temperature{0.7f}}},
      {"temperature 3", {Temperature{3}}},
      {"temperature 0", {Temperature{0}}},
      {"dynamic temperature", {DynamicTemperature{0.8f, 0.5f, 1.3f}}},
      {"dynamic temperature to zero", {DynamicTemperature{0.4f, 0.9f, 2}}},
      {"top-k 1", {TopK{1}}},
      {"top-k 10", {TopK{10}}},
      {"top-k 96", {TopK{96}}},
      {"top-p 0.3", {TopP{0.3f}}},
      {"top-p 0.95", {TopP{0.95f}}},
      {"top-p 0", {TopP{0}}},
      {"min-p 0.1", {MinP{0.1f}}},
      {"min-p 1", {MinP{1}}},
      {"typical-p 0.3", {TypicalP{0.3f}}},
      {"typical-p 0.95", {TypicalP{0.95f}}},
      {"top-n-sigma 1", {TopNSigma{1}}},
      {"top-n-sigma 0.4", {TopNSigma{0.4f}}},
      {"xtc", {Xtc{1, 0.02f}}},
      {"xtc never", {Xtc{0, 0.02f}}},
      {"repetition", {RepetitionPenalty{1.3f, -1}}},
      {"repetition window", {RepetitionPenalty{1.3f, 3}}},
      {"presence", {PresencePenalty{0.9f}}},
      {"presence prompt", {PresencePenalty{0.9f, -1, true}}},
      {"frequency", {FrequencyPenalty{0.6f}}},
      {"frequency prompt", {FrequencyPenalty{0.6f, 9, true}}},
      {"n-gram 3", {NoRepeatNgram{3}}},
      {"n-gram 1", {NoRepeatNgram{1}}},
      {"dry", {Dry{0.8f, 1.75f, 2, -1, {}}}},
      {"dry breakers", {Dry{0.8f, 1.75f, 2, -1, {"\n"}}}},
      {"dry spanning", {Dry{0.8f, 1.75f, 1, -1, {"<>", "\n"}}}},
      {"dry window", {Dry{0.8f, 1.75f, 1, 6, {}}}},
      {"mirostat", {Mirostat{3.5f, 0.1f, 50}}},
      {"mirostat 2", {MirostatV2{2, 0.1f}}},
      {"adaptive-p", {AdaptiveP{0.3f, 0.9f}}},
      {"chain", {RepetitionPenalty{1.1f, 64}, Temperature{0.8f}, TopK{20}, TopP{0.9f}, MinP{0.02f}}},
      {"chain reversed", {MinP{0.02f}, TopP{0.9f}, TopK{20}, Temperature{0.8f}, RepetitionPenalty{1.1f, 64}}},
      {"temperature then edits",
       {Temperature{0.5f}, PresencePenalty{0.9f, -1, true}, TypicalP{0.9f}, NoRepeatNgram{1}}},
  };
}

Chains trace_chains() {
  return {
      {"temperature", {Temperature{0.9f}}},
      {"usual", {Temperature{0.8f}, TopK{40}, TopP{0.95f}}},
      {"penalties", {RepetitionPenalty{1.2f, 64}, PresencePenalty{0.5f}, FrequencyPenalty{0.3f}, Temperature{1}}},
      {"dry", {Dry{0.8f, 1.75f, 1, -1, {"\n", "<>"}}, Temperature{0.4f}}},
      {"xtc", {Temperature{1}, Xtc{0.5f, 0.05f}}},
      {"mirostat", {Mirostat{3, 0.3f, 50}}},
      {"mirostat 2", {MirostatV2{3, 0.3f}}},
      {"adaptive-p", {MinP{0.05f}, AdaptiveP{0.2f, 0.8f}}},
  };
}

constexpr std::uint64_t seed = 0x1234567890ABCDEF;

}  // namespace

TEST_CASE("Each sampler leaves the distribution of its definition") {
  const auto golden = read("distributions.txt");
  const auto chains = single_chains();
  REQUIRE(golden.size() == chains.size());
  const Letters letters = texts();
  SamplerWorkspace workspace(vocabulary);
  for (std::size_t row = 0; row < golden.size(); ++row) {
    const auto& [name, expected] = golden[row];
    CAPTURE(name);
    REQUIRE(chains.count(name) == 1);
    const auto history =
        name == "dry spanning" ? std::vector<Token>{4, 5, 6, 7, 92, 93, 5, 6, 7, 50, 92, 93, 5, 6} : prompt;
    Step step;
    step.history = history;
    step.new_tokens = 5;
    step.random = {seed, 0, static_cast<std::uint32_t>(history.size()), 0};
    step.counts = &workspace.counts;
    const auto logits = logits_row(static_cast<std::uint32_t>(row));
    REQUIRE(workspace.candidates.reset(logits) == LogitCheck::ok);
    LinkContext context;
    context.vocabulary = vocabulary;
    context.context = 100;
    context.bytes = &letters;
    for (const SamplerSpec& spec : chains.at(name)) {
      if (const auto link = make_link(spec, context)) link->apply(workspace.candidates, step);
      ++context.place;
    }
    const auto list = workspace.candidates.list();
    const auto p = workspace.candidates.probabilities();
    REQUIRE(list.size() == expected.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      CAPTURE(i, list[i].id);
      REQUIRE(list[i].id == expected[i].first);
      REQUIRE(std::abs(p[i] - expected[i].second) < 1e-6);
    }
  }
}

TEST_CASE("Whole chains draw the tokens of the reference, with their log-probabilities") {
  const auto golden = read("traces.txt");
  const auto chains = trace_chains();
  REQUIRE(golden.size() == chains.size());
  const Letters letters = texts();
  SamplerWorkspace workspace(vocabulary);
  for (std::size_t number = 0; number < golden.size(); ++number) {
    const auto& [name, expected] = golden[number];
    CAPTURE(name);
    SamplingOptions options{.chain = chains.at(name), .seed = seed};
    SamplerChain chain(options, setup_for(vocabulary, &letters));
    auto history = prompt;
    for (const auto& [token, logprob] : expected) {
      CAPTURE(history.size());
      Draw draw;
      const auto row = static_cast<std::uint32_t>(1000 * (number + 1) + history.size());
      REQUIRE(chain.sample(workspace, logits_row(row), history, draw) == SampleStatus::ok);
      REQUIRE(draw.token == token);
      REQUIRE(draw.sampled_logprob == Approx(logprob).margin(2e-6));
      history.push_back(draw.token);
      REQUIRE(chain.accept(history).status == SampleStatus::ok);
    }
  }
}
