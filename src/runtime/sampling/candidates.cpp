#include "runtime/sampling/candidates.h"

#include <algorithm>
#include <limits>

namespace llminfer::runtime {

namespace {

constexpr float removed = -std::numeric_limits<float>::infinity();
constexpr float largest = std::numeric_limits<float>::max();

// Temperatures stay within these bounds, so that no product of them overflows.
constexpr double scale_limit = 1e12;

bool better(const Candidate& a, const Candidate& b) noexcept {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// Largest of the values; sets `bad` when one is NaN. Lanes keep the loop free of dependences.
float max_of(std::span<const float> values, bool& bad) noexcept {
  float lanes[8];
  std::fill(lanes, lanes + 8, removed);
  float poison = 0;  // NaN as soon as one value is NaN (or an infinity times 0: sorted out by the caller)
  std::size_t i = 0;
  float poisons[8] = {};
  for (; i + 8 <= values.size(); i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const float v = values[i + lane];
      lanes[lane] = v > lanes[lane] ? v : lanes[lane];
      poisons[lane] += v * 0.0f;
    }
  }
  for (std::size_t lane = 0; i < values.size(); ++i, ++lane) {
    lanes[lane] = values[i] > lanes[lane] ? values[i] : lanes[lane];
    poisons[lane] += values[i] * 0.0f;
  }
  for (const float p : poisons) poison += p;
  if (poison != poison) {
    bad = bad || std::any_of(values.begin(), values.end(), [](float v) { return v != v; });
  }
  return *std::max_element(lanes, lanes + 8);
}

}  // namespace

Candidates::Candidates(int vocabulary, std::pmr::memory_resource* memory)
    : own_(static_cast<std::size_t>(vocabulary), memory),
      block_max_((own_.size() + block - 1) / block, memory),
      block_order_(block_max_.size(), memory),
      block_sum_(block_max_.size(), memory),
      list_(memory),
      top_(memory),
      scores_(own_.size(), memory),
      order_(own_.size(), memory) {
  list_.reserve(own_.size());
  top_.reserve(own_.size());
}

std::span<const float> Candidates::block_values(std::size_t b) const noexcept {
  const std::size_t first = b * block;
  return {values_ + first, std::min(block, own_.size() - first)};
}

void Candidates::update_block(std::size_t b) noexcept {
  bool bad = false;
  block_max_[b] = max_of(block_values(b), bad);
}

LogitCheck Candidates::reset(std::span<const float> logits) noexcept {
  dense_ = true;
  copied_ = false;
  holes_ = false;
  scale_ = 1;
  list_.clear();
  values_ = logits.data();
  bool bad = false;
  float highest = removed;
  for (std::size_t b = 0; b < block_max_.size(); ++b) {
    block_max_[b] = max_of(block_values(b), bad);
    highest = std::max(highest, block_max_[b]);
  }
  if (bad) return LogitCheck::not_a_number;
  if (highest > largest) return LogitCheck::infinite;
  return highest == removed ? LogitCheck::nothing_left : LogitCheck::ok;
}

LogitCheck Candidates::reset_top(std::span<const Token> ids, std::span<const float> logits) noexcept {
  dense_ = false;
  copied_ = false;
  holes_ = false;
  scale_ = 1;
  list_.clear();
  if (logits.empty() || logits[0] == removed) return LogitCheck::nothing_left;
  if (logits[0] != logits[0]) return LogitCheck::not_a_number;  // ranks before every number
  if (logits[0] > largest) return LogitCheck::infinite;
  for (std::size_t i = 0; i < ids.size() && logits[i] != removed; ++i) list_.push_back({ids[i], logits[i]});
  std::sort(list_.begin(), list_.end(), [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  return LogitCheck::ok;
}

void Candidates::copy_row() noexcept {
  if (copied_) return;
  std::copy_n(values_, own_.size(), own_.begin());
  values_ = own_.data();
  copied_ = true;
}

void Candidates::restrict_to(std::span<const std::uint64_t> mask) noexcept {
  copy_row();
  for (std::size_t id = 0; id < own_.size(); ++id) {
    if ((mask[id / 64] >> (id % 64) & 1) == 0) own_[id] = removed;
  }
  for (std::size_t b = 0; b < block_max_.size(); ++b) update_block(b);
}

double Candidates::max() const noexcept {
  float highest = removed;
  if (dense_) {
    for (const float m : block_max_) highest = std::max(highest, m);
  } else {
    for (const Candidate& c : list_) highest = std::max(highest, c.logit);
  }
  return highest == removed ? minus_infinity : static_cast<double>(highest) * scale_;
}

Token Candidates::best() const noexcept {
  if (!dense_) {
    const auto it = std::min_element(list_.begin(), list_.end(), better);
    return it == list_.end() || it->logit == removed ? -1 : it->id;
  }
  const auto it = std::max_element(block_max_.begin(), block_max_.end());  // the first of equals
  if (it == block_max_.end() || *it == removed) return -1;
  const auto b = static_cast<std::size_t>(it - block_max_.begin());
  const auto values = block_values(b);
  const auto found = std::max_element(values.begin(), values.end());
  return static_cast<Token>(b * block + static_cast<std::size_t>(found - values.begin()));
}

std::size_t Candidates::find(Token id) const noexcept {
  const auto it =
      std::lower_bound(list_.begin(), list_.end(), id, [](const Candidate& c, Token value) { return c.id < value; });
  return it != list_.end() && it->id == id ? static_cast<std::size_t>(it - list_.begin()) : list_.size();
}

double Candidates::logit(Token id) const noexcept {
  if (id < 0 || id >= vocabulary()) return minus_infinity;
  float value = removed;
  if (dense_) {
    value = values_[id];
  } else if (const std::size_t i = find(id); i < list_.size()) {
    value = list_[i].logit;
  }
  return value == removed ? minus_infinity : static_cast<double>(value) * scale_;
}

void Candidates::set(Token id, double logit) noexcept {
  if (this->logit(id) == minus_infinity) return;
  float value = removed;
  if (logit != minus_infinity) {
    value = static_cast<float>(std::clamp(logit / scale_, -static_cast<double>(largest), static_cast<double>(largest)));
  }
  if (dense_) {
    copy_row();
    const auto b = static_cast<std::size_t>(id) / block;
    const float before = own_[static_cast<std::size_t>(id)];
    own_[static_cast<std::size_t>(id)] = value;
    if (value >= block_max_[b]) {
      block_max_[b] = value;
    } else if (before == block_max_[b]) {
      update_block(b);
    }
    return;
  }
  const std::size_t i = find(id);
  list_[i].logit = value;
  holes_ = holes_ || value == removed;
}

void Candidates::purge() noexcept {
  if (!holes_) return;
  std::erase_if(list_, [](const Candidate& c) { return c.logit == removed; });
  holes_ = false;
}

void Candidates::multiply(double factor) noexcept {
  scale_ = std::clamp(scale_ * std::clamp(factor, 1 / scale_limit, scale_limit), 1 / scale_limit, scale_limit);
}

void Candidates::keep_best() noexcept {
  const Token id = best();
  if (id < 0) return;
  const float value = dense_ ? values_[id] : list_[find(id)].logit;
  dense_ = false;
  holes_ = false;
  list_.assign(1, Candidate{id, value});
}

// A lower bound of the k-th largest value: the k blocks with the largest maxima hold k values of at least that.
float Candidates::top_bound(std::size_t k) noexcept {
  if (k > block_max_.size()) return -largest;
  std::copy(block_max_.begin(), block_max_.end(), block_order_.begin());
  const auto nth = block_order_.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(block_order_.begin(), nth, block_order_.end(), [](float a, float b) { return a > b; });
  return std::max(*nth, -largest);
}

std::span<const Candidate> Candidates::top(std::size_t k) noexcept {
  top_.clear();
  if (k == 0) return {};
  if (dense_) {
    const float bound = top_bound(k);
    for (std::size_t b = 0; b < block_max_.size(); ++b) {
      if (block_max_[b] < bound) continue;
      const auto values = block_values(b);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] >= bound) top_.push_back({static_cast<Token>(b * block + i), values[i]});
      }
    }
  } else {
    purge();
    top_.assign(list_.begin(), list_.end());
  }
  if (k < top_.size()) {
    std::nth_element(top_.begin(), top_.begin() + static_cast<std::ptrdiff_t>(k), top_.end(), better);
    top_.resize(k);
  }
  std::sort(top_.begin(), top_.end(), better);
  return top_;
}

void Candidates::keep_top(std::size_t k) noexcept {
  if (k == 0 || (!dense_ && k >= list_.size())) return;
  if (dense_ && k >= own_.size()) return;
  top(k);
  dense_ = false;
  list_.assign(top_.begin(), top_.end());
  std::sort(list_.begin(), list_.end(), [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
}

void Candidates::keep_from(double threshold) noexcept {
  threshold = std::min(threshold, max());
  if (!dense_) {
    purge();
    std::erase_if(list_, [&](const Candidate& c) { return static_cast<double>(c.logit) * scale_ < threshold; });
    return;
  }
  list_.clear();
  for (std::size_t b = 0; b < block_max_.size(); ++b) {
    if (block_max_[b] == removed || static_cast<double>(block_max_[b]) * scale_ < threshold) continue;
    const auto values = block_values(b);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != removed && static_cast<double>(values[i]) * scale_ >= threshold) {
        list_.push_back({static_cast<Token>(b * block + i), values[i]});
      }
    }
  }
  dense_ = false;
}

double Candidates::log_sum_exp() const noexcept {
  const double highest = max();
  if (highest == minus_infinity) return minus_infinity;
  double sum = 0;
  if (dense_) {
    const float peak = *std::max_element(block_max_.begin(), block_max_.end());
    for (std::size_t b = 0; b < block_max_.size(); ++b) {
      const auto values = block_values(b);
      sum += exp_sum(values.data(), values.size(), peak, static_cast<float>(scale_));
    }
  } else {
    for (const Candidate& c : list_) sum += exp64(static_cast<double>(c.logit) * scale_ - highest);
  }
  return highest + log64(sum);
}

std::span<Candidate> Candidates::list() noexcept {
  if (dense_) {
    list_.clear();
    for (std::size_t id = 0; id < own_.size(); ++id) {
      if (values_[id] != removed) list_.push_back({static_cast<Token>(id), values_[id]});
    }
    dense_ = false;
  }
  purge();
  return list_;
}

void Candidates::apply_scale() noexcept {
  constexpr auto bound = static_cast<double>(largest);
  for (Candidate& c : list()) {
    c.logit = static_cast<float>(std::clamp(static_cast<double>(c.logit) * scale_, -bound, bound));
  }
  scale_ = 1;
}

bool Candidates::list_changed() noexcept {
  holes_ = true;
  purge();
  return std::none_of(list_.begin(), list_.end(), [](const Candidate& c) { return !(c.logit <= largest); });
}

std::span<double> Candidates::probabilities() noexcept {
  const auto entries = list();
  const double highest = max();
  double sum = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    scores_[i] = exp64(static_cast<double>(entries[i].logit) * scale_ - highest);
    sum += scores_[i];
  }
  for (std::size_t i = 0; i < entries.size(); ++i) scores_[i] /= sum;
  return {scores_.data(), entries.size()};
}

std::span<std::uint32_t> Candidates::order() noexcept {
  const std::size_t count = list().size();
  for (std::size_t i = 0; i < count; ++i) order_[i] = static_cast<std::uint32_t>(i);
  return {order_.data(), count};
}

void Candidates::keep_entries(std::span<const std::uint32_t> indices) noexcept {
  std::fill_n(scores_.begin(), list_.size(), 0.0);
  for (const std::uint32_t i : indices) scores_[i] = 1.0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < list_.size(); ++i) {
    if (scores_[i] != 0) list_[kept++] = list_[i];
  }
  list_.resize(kept);
}

Candidates::Drawn Candidates::draw_dense(float uniform) noexcept {
  const float peak = *std::max_element(block_max_.begin(), block_max_.end());
  if (peak == removed) return {};
  const auto scale = static_cast<float>(scale_);
  double total = 0;
  for (std::size_t b = 0; b < block_max_.size(); ++b) {
    const auto values = block_values(b);
    block_sum_[b] = exp_sum(values.data(), values.size(), peak, scale);
    total += block_sum_[b];
  }
  const double target = static_cast<double>(uniform) * total;
  double running = 0;
  Token token = best();  // stands where rounding leaves the target just above the sum
  for (std::size_t b = 0; b < block_max_.size() && running <= target; ++b) {
    if (running + block_sum_[b] <= target) {
      running += block_sum_[b];
      continue;
    }
    const auto values = block_values(b);
    for (std::size_t i = 0; i < values.size() && running <= target; ++i) {
      const double p = exp32((values[i] - peak) * scale);
      if (p == 0) continue;
      running += p;
      token = static_cast<Token>(b * block + i);
    }
  }
  const double below = (static_cast<double>(values_[token]) - static_cast<double>(peak)) * scale_;
  return {token, below - log64(total)};
}

Candidates::Drawn Candidates::draw(float uniform) noexcept {
  if (dense_) return draw_dense(uniform);
  const double highest = max();
  if (highest == minus_infinity) return {};
  const auto below = [&](const Candidate& c) { return static_cast<double>(c.logit) * scale_ - highest; };
  double total = 0;
  for (std::size_t i = 0; i < list_.size(); ++i) {
    scores_[i] = exp64(below(list_[i]));
    total += scores_[i];
  }
  const double target = static_cast<double>(uniform) * total;
  double running = 0;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < list_.size() && running <= target; ++i) {
    if (scores_[i] == 0) continue;
    running += scores_[i];
    chosen = i;
  }
  return {list_[chosen].id, below(list_[chosen]) - log64(total)};
}

}  // namespace llminfer::runtime
