#include "rows.h"

#include <algorithm>
#include <cmath>
#include <llminfer/session.hpp>
#include <vector>

#include "log_softmax.h"

namespace examples {
namespace {

using llminfer::Token;
using json = nlohmann::ordered_json;

double rounded(double value) { return std::round(value * 1e6) / 1e6; }

json to_json(const std::vector<std::pair<Token, double>>& top) {
  json list = json::array();
  for (const auto& [token, logprob] : top) list.push_back({token, rounded(logprob)});
  return list;
}

// Fills "top" and "nll".
void score(llminfer::Session& session, const std::vector<Token>& tokens, RowOptions options,
           const std::stop_token& stop, json& row) {
  json top = json::array();
  double nll = 0;
  const auto on_row = [&](int position, std::span<const float> logits) {
    const LogSoftmax logprobs(logits);
    top.push_back(to_json(logprobs.top(options.top)));
    const std::size_t next = static_cast<std::size_t>(position) + 1;
    if (next < tokens.size()) nll -= logprobs[tokens[next]];
    return true;
  };
  session.score(tokens, on_row, stop).value();
  row["top"] = std::move(top);
  row["nll"] = rounded(nll);
}

// Fills "greedy", "gap" and "greedy_text".
void continue_greedily(llminfer::Session& session, RowOptions options, const std::stop_token& stop, json& row) {
  std::vector<Token> greedy;
  std::vector<double> gap;
  std::string text;
  if (options.greedy > 0 && !session.tokens().empty()) {
    auto generator = session.generate({.max_tokens = options.greedy, .top_logprobs = 2}).value();
    const auto on_piece = [&](const llminfer::Piece& piece) {
      greedy.push_back(piece.token);
      gap.push_back(piece.top.size() < 2 ? 0 : rounded(double{piece.top[0].logprob} - double{piece.top[1].logprob}));
      text += piece.text;
      return true;
    };
    const llminfer::Outcome outcome = generator.run(on_piece, stop).value();
    if (outcome.finish == llminfer::Finish::cancelled) {
      llminfer::throw_error({llminfer::ErrorCode::cancelled, "interrupted", "Generator::run"});
    }
  }
  row["greedy"] = greedy;
  row["gap"] = gap;
  row["greedy_text"] = text;
}

}  // namespace

json evaluate(const llminfer::Model& model, const std::string& text, RowOptions options, const std::stop_token& stop) {
  const std::vector<Token> tokens = model.tokenizer().encode(text, {.special = llminfer::SpecialText::parse}).value();
  const int context = static_cast<int>(tokens.size()) + options.greedy;
  llminfer::Session session =
      llminfer::Session::open(model, {.context = std::clamp(context, 1, model.info().context)}).value();
  json row = {{"text", text}, {"tokens", tokens}};
  score(session, tokens, options, stop, row);
  continue_greedily(session, options, stop, row);
  return row;
}

}  // namespace examples
