#include "runtime/beam_state.h"

#include <algorithm>
#include <cmath>

namespace llminfer::runtime {
namespace {

std::vector<Token> sorted(std::vector<Token> tokens) {
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

bool contains(const std::vector<Token>& tokens, Token token) noexcept {
  return std::binary_search(tokens.begin(), tokens.end(), token);
}

}  // namespace

BeamState::BeamState(const BeamSetup& setup)
    : results_(setup.results),
      max_tokens_(setup.max_tokens),
      longest_(setup.longest),
      length_penalty_(setup.length_penalty),
      vocabulary_(static_cast<std::size_t>(setup.vocabulary)),
      width_(std::min(vocabulary_, setup.beams + setup.end_of_text.size() + setup.stop_tokens.size())),
      end_of_text_(sorted(setup.end_of_text)),
      stop_tokens_(sorted(setup.stop_tokens)),
      banned_(sorted(setup.banned)),
      beams_(setup.beams),
      moves_(setup.beams),
      rows_kept_(setup.beams * width_, Candidate(), setup.memory),
      merged_(setup.memory),
      paths_(setup.beams * setup.max_tokens, 0, setup.memory),
      next_paths_(setup.beams * setup.max_tokens, 0, setup.memory) {
  chosen_.reserve(setup.beams);
  merged_.reserve(rows_kept_.size());
  for (std::size_t i = 0; i <= results_; ++i) {
    found_.emplace_back(setup.memory);
    found_.back().tokens.reserve(max_tokens_);
  }
  beams_[0].active = true;
  if (max_tokens_ == 0) end(longest_);
}

bool BeamState::take_row(std::size_t beam, std::span<const float> logits) noexcept {
  logits = logits.first(vocabulary_);
  double most = -INFINITY;
  for (const float x : logits) {
    if (std::isnan(x) || x == INFINITY) return false;
    most = std::max(most, static_cast<double>(x));
  }
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - most);
  const double normalizer = most + std::log(sum);

  // The best `width_` of the row, in a heap with the worst of them at its front.
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.logprob != b.logprob ? a.logprob > b.logprob : a.token < b.token;
  };
  const auto first = rows_kept_.begin() + static_cast<std::ptrdiff_t>(beam * width_);
  auto last = first;
  Beam& b = beams_[beam];
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == -INFINITY) continue;
    const Candidate c{static_cast<double>(logits[i]), static_cast<Token>(i), static_cast<std::int32_t>(beam)};
    const bool full = last - first == static_cast<std::ptrdiff_t>(width_);
    if (full && !better(c, *first)) continue;
    if (contains(banned_, c.token)) continue;
    if (full) {
      std::pop_heap(first, last, better);
      *(last - 1) = c;
    } else {
      *last++ = c;
    }
    std::push_heap(first, last, better);
  }
  for (auto it = first; it != last; ++it) it->logprob = b.logprob + (it->logprob - normalizer);
  b.candidates = static_cast<std::size_t>(last - first);
  b.row = true;
  ++rows_;
  return true;
}

std::span<const BeamState::Move> BeamState::advance() noexcept {
  gather();
  choose();
  place();
  return moves_;
}

void BeamState::gather() noexcept {
  merged_.clear();
  for (std::size_t b = 0; b < beams_.size(); ++b) {
    const auto first = rows_kept_.begin() + static_cast<std::ptrdiff_t>(b * width_);
    if (beams_[b].active)
      merged_.insert(merged_.end(), first, first + static_cast<std::ptrdiff_t>(beams_[b].candidates));
  }
  std::sort(merged_.begin(), merged_.end(), [](const Candidate& a, const Candidate& b) {
    if (a.logprob != b.logprob) return a.logprob > b.logprob;
    return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
  });
}

/// Those that end become hypotheses, the best others are chosen to go on.
void BeamState::choose() noexcept {
  chosen_.clear();
  ++length_;
  for (std::size_t i = 0; i < merged_.size(); ++i) {
    const Candidate& c = merged_[i];
    Finish finish = longest_;
    if (ends(c.token, finish) || length_ == max_tokens_) {
      add(path(static_cast<std::size_t>(c.beam), length_ - 1), &c.token, c.logprob, finish);
    } else if (chosen_.size() < beams_.size()) {
      chosen_.push_back(i);
    }
  }
  const bool settled = found_count_ == results_ && !chosen_.empty() &&
                       found_[found_count_ - 1].score >= best_to_come(merged_[chosen_.front()].logprob);
  over_ = chosen_.empty() || settled;
  if (over_) chosen_.clear();
}

/// A parent's best child stays in its place, the others go to places that are free.
void BeamState::place() noexcept {
  for (Beam& beam : beams_) beam = {};
  for (Move& move : moves_) move = {};
  const auto put = [&](std::size_t to, const Candidate& c) {
    const auto parent = static_cast<std::size_t>(c.beam);
    moves_[to] = {parent, c.token, true};
    beams_[to] = {true, false, c.logprob, 0};
    const auto from = paths_.begin() + static_cast<std::ptrdiff_t>(parent * max_tokens_);
    const auto into = next_paths_.begin() + static_cast<std::ptrdiff_t>(to * max_tokens_);
    std::copy_n(from, length_ - 1, into);
    *(into + static_cast<std::ptrdiff_t>(length_ - 1)) = c.token;
  };
  constexpr std::int32_t placed = -1;
  for (const std::size_t i : chosen_) {
    Candidate& c = merged_[i];
    const auto parent = static_cast<std::size_t>(c.beam);
    if (beams_[parent].active) continue;
    put(parent, c);
    c.beam = placed;
  }
  std::size_t to = 0;
  for (const std::size_t i : chosen_) {
    if (merged_[i].beam == placed) continue;
    while (beams_[to].active) ++to;
    put(to, merged_[i]);
  }
  paths_.swap(next_paths_);
  active_ = chosen_.size();
  rows_ = 0;
}

void BeamState::end(Finish finish) noexcept {
  if (over_) return;
  for (std::size_t b = 0; b < beams_.size(); ++b) {
    if (beams_[b].active) add(path(b, length_), nullptr, beams_[b].logprob, finish);
  }
  over_ = true;
}

bool BeamState::ends(Token token, Finish& finish) const noexcept {
  if (contains(stop_tokens_, token)) {
    finish = Finish::stop_token;
    return true;
  }
  if (!contains(end_of_text_, token)) return false;
  finish = Finish::end_of_text;
  return true;
}

double BeamState::score(double logprob, std::size_t length) const noexcept {
  return length == 0 ? logprob : logprob / std::pow(static_cast<double>(length), length_penalty_);
}

/// The best score that a history of this log-probability can still reach: log-probabilities only fall, and a length
/// counts the more the higher the penalty.
double BeamState::best_to_come(double logprob) const noexcept {
  return score(logprob, length_penalty_ > 0 ? max_tokens_ : length_ + 1);
}

std::span<const Token> BeamState::path(std::size_t beam, std::size_t tokens) const noexcept {
  return std::span<const Token>(paths_).subspan(beam * max_tokens_, tokens);
}

void BeamState::add(std::span<const Token> path, const Token* last, double logprob, Finish finish) noexcept {
  BeamHypothesis& spare = found_[found_count_];
  spare.tokens.assign(path.begin(), path.end());
  if (last != nullptr) spare.tokens.push_back(*last);
  spare.logprob = logprob;
  spare.score = score(logprob, spare.tokens.size());
  spare.finish = finish;
  std::size_t at = found_count_;
  for (; at > 0 && found_[at].score > found_[at - 1].score; --at) std::swap(found_[at], found_[at - 1]);
  found_count_ = std::min(found_count_ + 1, results_);
}

}  // namespace llminfer::runtime
