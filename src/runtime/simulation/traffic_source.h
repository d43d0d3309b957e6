// The requests of a Traffic, one after the other.
#pragma once

#include <cstdint>
#include <llminfer/simulate.hpp>
#include <llminfer/types.hpp>
#include <vector>

#include "runtime/simulation/random.h"

namespace llminfer::runtime::simulation {

/// One request before it is served.
struct Arrival {
  std::int64_t time_ns = 0;
  std::int32_t prompt = 0;         ///< tokens, at least 1
  std::int32_t output = 0;         ///< tokens, at least 1
  std::int32_t prefix = -1;        ///< which shared prefix the prompt begins with
  std::int32_t prefix_tokens = 0;  ///< of the prompt
  std::uint64_t seed = 0;          ///< of its own tokens
};

class TrafficSource {
 public:
  /// Lengths are cut so that prompt and output fit into `context` (at least 2): the output to half of it, then the
  /// prompt to the rest. Throws invalid_argument naming the field.
  TrafficSource(const Traffic& traffic, std::int32_t context);

  bool done() const noexcept { return left_ == 0; }
  /// The next request; not when done.
  const Arrival& next() const noexcept { return next_; }
  void pop() noexcept;

 private:
  void draw() noexcept;
  std::int32_t length(const TokenCounts& counts, std::int32_t most) noexcept;

  Traffic traffic_;
  std::int32_t context_;
  Random gaps_;
  Random lengths_;
  std::int64_t left_;
  double even_seconds_ = 0;  // when it would come if the day had no swing
  Arrival next_;
};

/// Puts the tokens of the request's prompt into `out`: equal prefixes are equal, all else differs.
void fill_prompt(const Arrival& arrival, std::int32_t vocabulary, std::vector<Token>& out);

}  // namespace llminfer::runtime::simulation
