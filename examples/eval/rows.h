// Everything a model says of a text: what the goldens hold.
#pragma once

#include <llminfer/model.hpp>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>

namespace examples {

struct RowOptions {
  int top = 8;      ///< log-probabilities listed of each position
  int greedy = 48;  ///< most tokens of the continuation
};

/// {"text", "tokens", "top": per position [[id, log-probability] ...] of the next token, best first, "nll": sum of
/// -ln p of the text's tokens but the first, "greedy": the most probable continuation, ending with the model's stop
/// token if it chose one, "gap": by how much the best logit exceeded the second at each of these steps, "greedy_text"}.
/// Control tokens in the text are taken as such, BOS as the model says.
nlohmann::ordered_json evaluate(const llminfer::Model& model, const std::string& text, RowOptions options,
                                const std::stop_token& stop);

}  // namespace examples
