// How far a model's outputs are from the golden ones, and how far they may be.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace golden {

struct Limits {
  double logprob = 0;        ///< of every golden log-probability; 0: not compared
  double small_logprob = 0;  ///< of those below -8
  double nll = 0;            ///< relative, of the sum over all lines
  double first_choice = 0;   ///< share of positions whose most probable token is the golden one, at least
  double gap = 0;            ///< where a continuation departs, the golden gap of its two best logits is at most this
  int greedy = 48;           ///< tokens of a continuation that were asked for
};

/// For float32 arithmetic on unpacked weights, and for the cpu's, which rounds activations to 8 bits: with its default
/// format of cached keys and values, which is bf16 on some processors, and with halves.
Limits reference_limits();
Limits cpu_limits();
Limits cpu_f16_limits();

/// Of device "reference" or "cpu" and format "automatic" or "f16" of its cache. Throws runtime_error for others.
Limits limits_of(const std::string& device, const std::string& kv);

/// Adds up lines; objects as llminfer-eval writes them.
class Comparison {
 public:
  explicit Comparison(const Limits& limits) : limits_(limits) {}

  /// One line; `ours` should list more tokens per position than `golden`, so that a near-tie at the end is found.
  void add(const nlohmann::json& golden, const nlohmann::json& ours);
  /// After the last line: what concerns sums.
  void finish();

  const std::vector<std::string>& failures() const { return failures_; }
  /// The figures found, a line each.
  std::string report() const;

 private:
  void fail(const std::string& what);
  void compare_position(const nlohmann::json& golden, const nlohmann::json& ours, std::size_t position);
  void compare_greedy(const nlohmann::json& golden, const nlohmann::json& ours);

  Limits limits_;
  std::vector<std::string> failures_{};
  std::size_t lines_ = 0, positions_ = 0, same_first_ = 0, departures_ = 0, greedy_tokens_ = 0, missing_ = 0;
  double golden_nll_ = 0, our_nll_ = 0;
  double worst_logprob_ = 0, worst_small_logprob_ = 0, worst_gap_ = 0;
};

}  // namespace golden
