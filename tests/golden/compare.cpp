#include "compare.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

namespace golden {

using nlohmann::json;

Limits reference_limits() {
  return {.logprob = 0.002, .small_logprob = 0.01, .nll = 0.0002, .first_choice = 0.999, .gap = 0.01};
}

// Of Qwen2.5 a bf16 cache, some processors' default, moves single logits by 0.7: gaps of 0.26 and 0.35 were seen.
Limits cpu_limits() { return {.nll = 0.005, .first_choice = 0.98, .gap = 0.4}; }

Limits cpu_f16_limits() { return {.nll = 0.005, .first_choice = 0.98, .gap = 0.3}; }

Limits limits_of(const std::string& device, const std::string& kv) {
  if (device == "reference" && kv == "automatic") return reference_limits();
  if (device == "cpu" && kv == "automatic") return cpu_limits();
  if (device == "cpu" && kv == "f16") return cpu_f16_limits();
  throw std::runtime_error("no limits for device " + device + " with a cache of " + kv);
}

namespace {

constexpr double small = -8;

// Log-probability of `token` in a list of [token, log-probability], or NaN.
double find(const json& list, const json& token) {
  for (const json& entry : list) {
    if (entry.at(0) == token) return entry.at(1).get<double>();
  }
  return std::nan("");
}

}  // namespace

void Comparison::fail(const std::string& what) { failures_.push_back("line " + std::to_string(lines_) + ": " + what); }

void Comparison::compare_position(const json& golden, const json& ours, std::size_t position) {
  ++positions_;
  same_first_ += !ours.empty() && golden.at(0).at(0) == ours.at(0).at(0) ? 1 : 0;
  for (const json& entry : golden) {
    const double expected = entry.at(1).get<double>();
    const double found = find(ours, entry.at(0));
    if (std::isnan(found)) {
      ++missing_;
      if (limits_.logprob > 0) fail("position " + std::to_string(position) + ": " + entry.dump() + " is not listed");
      continue;
    }
    const double off = std::abs(found - expected);
    double& worst = expected < small ? worst_small_logprob_ : worst_logprob_;
    worst = std::max(worst, off);
    const double limit = expected < small ? limits_.small_logprob : limits_.logprob;
    if (limit > 0 && off > limit) {
      fail("position " + std::to_string(position) + ": " + entry.dump() + ", but here " + std::to_string(found));
    }
  }
}

void Comparison::compare_greedy(const json& golden, const json& ours) {
  const auto& expected = golden.at("greedy");
  const auto& found = ours.at("greedy");
  const std::size_t length = std::min<std::size_t>(expected.size(), static_cast<std::size_t>(limits_.greedy));
  for (std::size_t i = 0; i < length; ++i) {
    if (i < found.size() && expected[i] == found[i]) {
      ++greedy_tokens_;
      continue;
    }
    const double gap = golden.at("gap").at(i).get<double>();
    ++departures_;
    worst_gap_ = std::max(worst_gap_, gap);
    const std::string here = i < found.size() ? found[i].dump() : "the end";
    if (gap > limits_.gap || i >= found.size()) {
      fail("greedy token " + std::to_string(i) + " is " + here + " instead of " + expected[i].dump() +
           ", with a golden gap of " + std::to_string(gap));
    }
    return;
  }
  // Golden lists shorter than what was asked for end with a token that ends the text.
  if (found.size() > length) fail("the continuation goes on after " + std::to_string(length) + " tokens");
}

void Comparison::add(const json& golden, const json& ours) {
  ++lines_;
  if (golden.at("text") != ours.at("text")) fail("the text is another one");
  if (golden.at("tokens") != ours.at("tokens")) {
    fail("tokens " + ours.at("tokens").dump() + " instead of " + golden.at("tokens").dump());
    return;
  }
  const json& expected = golden.at("top");
  const json& found = ours.at("top");
  if (expected.size() != found.size()) {
    fail(std::to_string(found.size()) + " positions instead of " + std::to_string(expected.size()));
    return;
  }
  for (std::size_t i = 0; i < expected.size(); ++i) compare_position(expected[i], found[i], i);
  golden_nll_ += golden.at("nll").get<double>();
  our_nll_ += ours.at("nll").get<double>();
  compare_greedy(golden, ours);
}

void Comparison::finish() {
  const double nll_off = std::abs(our_nll_ - golden_nll_) / golden_nll_;
  if (lines_ == 0) failures_.push_back("no lines were compared");
  if (!(nll_off <= limits_.nll)) failures_.push_back("nll is off by a share of " + std::to_string(nll_off));
  if (!(static_cast<double>(same_first_) >= limits_.first_choice * static_cast<double>(positions_))) {
    failures_.push_back("first choice equal at only " + std::to_string(same_first_) + " of " +
                        std::to_string(positions_) + " positions");
  }
}

std::string Comparison::report() const {
  std::ostringstream out;
  out << lines_ << " lines, " << positions_ << " positions\n"
      << "log-probabilities: off by at most " << worst_logprob_ << ", below " << small << " by at most "
      << worst_small_logprob_ << "; not listed: " << missing_ << '\n'
      << "nll: " << our_nll_ << " (golden " << golden_nll_ << ", off by a share of "
      << (our_nll_ - golden_nll_) / golden_nll_ << ")\n"
      << "first choice: equal at " << same_first_ << '\n'
      << "greedy: " << greedy_tokens_ << " tokens equal, " << departures_
      << " continuations depart, at a golden gap of "
      << "at most " << worst_gap_ << '\n';
  return out.str();
}

}  // namespace golden
