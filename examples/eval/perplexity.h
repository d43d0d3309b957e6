// Perplexity of a text.
#pragma once

#include <llminfer/model.hpp>
#include <stop_token>
#include <string>

namespace examples {

struct PerplexityOptions {
  int window = 512;  ///< tokens, a BOS included
  int stride = 0;    ///< new tokens of each window; 0: half a window
  bool progress = false;
};

struct Perplexity {
  double nll = 0;          ///< sum of -ln p
  std::size_t scored = 0;  ///< tokens that were predicted
  std::size_t tokens = 0;  ///< of the text
  std::size_t text_bytes = 0;
  double per_token() const;
};

/// The text's tokens are cut into windows that advance by `stride`; each window starts from nothing (with a BOS where
/// the model wants one) and scores its last `stride` tokens, the first window all it can. So every token is predicted
/// exactly once, from at least window - stride tokens before it once there are so many. The first token of all has
/// nothing before it and is scored only after a BOS.
Perplexity perplexity(const llminfer::Model& model, const std::string& text, PerplexityOptions options,
                      std::stop_token stop);

}  // namespace examples
