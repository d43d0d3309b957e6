#include "perplexity.h"

#include <algorithm>
#include <cmath>
#include <llminfer/session.hpp>
#include <vector>

#include "../common/format.h"
#include "../common/program.h"
#include "../common/progress.h"
#include "log_softmax.h"

namespace examples {
namespace {

using llminfer::Token;

class Scorer {
 public:
  Scorer(const llminfer::Model& model, int window, std::stop_token stop)
      : session_(llminfer::Session::open(model, {.context = window}).value()), stop_(std::move(stop)) {}

  // Sum of -ln p of tokens[from ..], each predicted from all before it in `tokens`. 1 <= from <= size.
  double nll(std::span<const Token> tokens, std::size_t from) {
    session_.rewind(0).value();
    session_.append(tokens.first(from)).value();
    session_.prefill(stop_).value();
    if (from == tokens.size()) return 0;
    double sum = -LogSoftmax(session_.logits())[tokens[from]];
    // The last token's row would predict what is outside this window.
    session_
        .score(
            tokens.subspan(from, tokens.size() - from - 1),
            [&](int position, std::span<const float> logits) {
              sum -= LogSoftmax(logits)[tokens[static_cast<std::size_t>(position) + 1]];
              return true;
            },
            stop_)
        .value();
    return sum;
  }

 private:
  llminfer::Session session_;
  std::stop_token stop_;
};

}  // namespace

double Perplexity::per_token() const { return std::exp(nll / static_cast<double>(scored)); }

Perplexity perplexity(const llminfer::Model& model, const std::string& text, PerplexityOptions options,
                      std::stop_token stop) {
  const std::vector<Token> tokens = model.tokenizer()
                                        .encode(text, {.special = llminfer::SpecialText::none,
                                                       .bos = llminfer::AddToken::no,
                                                       .eos = llminfer::AddToken::no})
                                        .value();
  std::vector<Token> head;
  if (model.tokenizer().adds_bos() && model.tokenizer().bos()) head.push_back(*model.tokenizer().bos());
  if (tokens.size() + head.size() < 2) throw std::runtime_error("the text is too short: it needs at least two tokens");

  const std::size_t room = static_cast<std::size_t>(options.window) - head.size();  // tokens of the text in a window
  const std::size_t stride = options.stride == 0 ? (room + 1) / 2 : static_cast<std::size_t>(options.stride);
  if (room < 2 || stride > room - 1) throw UsageError("--stride must be less than --context");

  Perplexity result{.tokens = tokens.size(), .text_bytes = text.size()};
  ProgressLine line(options.progress);
  Scorer scorer(model, options.window, std::move(stop));
  for (std::size_t done = 0; done < tokens.size();) {
    const std::size_t end = std::min(tokens.size(), done == 0 ? room : done + stride);
    const std::size_t begin = end - std::min(end, room);
    std::vector<Token> window = head;
    window.insert(window.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                  tokens.begin() + static_cast<std::ptrdiff_t>(end));
    const std::size_t from = std::max(head.size() + done - begin, std::size_t{1});
    result.nll += scorer.nll(window, from);
    result.scored += window.size() - from;
    done = end;
    line.show(print("%zu of %zu tokens, perplexity %.4f", done, tokens.size(), result.per_token()));
  }
  return result;
}

}  // namespace examples
