#include "kv_divergence.h"

#include <algorithm>
#include <cmath>
#include <llminfer/session.hpp>
#include <stdexcept>

#include "../common/format.h"
#include "../common/progress.h"
#include "log_softmax.h"

namespace examples {
namespace {

using llminfer::KvType;
using llminfer::Token;

/// A model in one format, with the rows of a chunk.
struct Candidate {
  Candidate(llminfer::Model opened, int window)
      : model(std::move(opened)), session(llminfer::Session::open(model, {.context = window}).value()) {}

  std::vector<std::vector<float>> rows_of(std::span<const Token> chunk, const std::stop_token& stop) {
    std::vector<std::vector<float>> rows;
    const auto keep = [&rows](int, std::span<const float> row) {
      rows.emplace_back(row.begin(), row.end());
      return true;
    };
    session.score(chunk, keep, stop).value();
    return rows;
  }

  llminfer::Model model;
  llminfer::Session session;
};

/// `next`: the token that stands there, or -1.
void add_row(std::span<const float> exact, std::span<const float> row, Token next, KvDivergence& sum) {
  const LogSoftmax p(exact);
  const LogSoftmax q(row);
  double kl = 0;
  for (Token id = 0; id < static_cast<Token>(exact.size()); ++id) kl += std::exp(p[id]) * (p[id] - q[id]);
  sum.mean += kl;
  sum.largest = std::max(sum.largest, kl);
  const auto best = [](std::span<const float> x) { return std::max_element(x.begin(), x.end()) - x.begin(); };
  sum.same_best += best(exact) == best(row) ? 1 : 0;
  if (next >= 0) sum.nll_increase += p[next] - q[next];
  ++sum.positions;
}

std::vector<KvDivergence> formats() {
  std::vector<KvDivergence> out;
  for (const KvType type : {KvType::f16, KvType::bf16, KvType::q8_0, KvType::q4_0}) {
    for (const int side : {0, 1, 2}) {
      KvDivergence d;
      if (side != 1) d.k = type;
      if (side != 0) d.v = type;
      out.push_back(d);
    }
  }
  return out;
}

}  // namespace

std::vector<KvDivergence> kv_divergence(const OpenModel& open, const std::string& text, KvDivergenceOptions options,
                                        const std::stop_token& stop) {
  constexpr std::size_t chunk = 16;
  std::vector<KvDivergence> found = formats();
  Candidate exact(open(KvType::f32, KvType::f32), options.window);
  std::vector<Candidate> candidates;
  for (const KvDivergence& d : found) candidates.emplace_back(open(d.k, d.v), options.window);

  const llminfer::Tokenizer& tokenizer = exact.model.tokenizer();
  std::vector<Token> tokens = tokenizer
                                  .encode(text, {.special = llminfer::SpecialText::none,
                                                 .bos = llminfer::AddToken::no,
                                                 .eos = llminfer::AddToken::no})
                                  .value();
  if (tokens.empty()) throw std::runtime_error("the text has no tokens");
  tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(options.tokens)));
  std::vector<Token> head;
  if (tokenizer.adds_bos() && tokenizer.bos()) head.push_back(*tokenizer.bos());
  const std::size_t room = static_cast<std::size_t>(options.window) - head.size();

  ProgressLine line(options.progress);
  for (std::size_t begin = 0; begin < tokens.size(); begin += room) {
    std::vector<Token> window = head;
    const std::size_t end = std::min(tokens.size(), begin + room);
    window.insert(window.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                  tokens.begin() + static_cast<std::ptrdiff_t>(end));
    exact.session.rewind(0).value();
    for (Candidate& c : candidates) c.session.rewind(0).value();
    for (std::size_t at = 0; at < window.size(); at += chunk) {
      const auto part = std::span<const Token>(window).subspan(at, std::min(chunk, window.size() - at));
      const auto rows = exact.rows_of(part, stop);
      for (std::size_t c = 0; c < candidates.size(); ++c) {
        const auto other = candidates[c].rows_of(part, stop);
        for (std::size_t i = 0; i < rows.size(); ++i) {
          add_row(rows[i], other[i], at + i + 1 < window.size() ? window[at + i + 1] : -1, found[c]);
        }
      }
      line.show(print("%zu of %zu tokens", begin + at + part.size(), tokens.size()));
    }
  }
  for (KvDivergence& d : found) {
    const auto n = static_cast<double>(d.positions);
    d.mean /= n;
    d.same_best /= n;
    d.nll_increase /= n;
  }
  return found;
}

}  // namespace examples
