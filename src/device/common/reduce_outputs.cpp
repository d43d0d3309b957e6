#include "device/common/reduce_outputs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace llminfer::device {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// A row of logits behind its mask.
class MaskedRow {
 public:
  MaskedRow(std::span<const float> logits, std::size_t row, std::span<const std::uint32_t> allowed) noexcept
      : logits_(logits) {
    const std::size_t words = (logits.size() + 31) / 32;
    if (!allowed.empty()) mask_ = allowed.subspan(row * words, words);
  }
  std::size_t size() const noexcept { return logits_.size(); }
  float operator[](std::size_t id) const noexcept {
    const bool open = mask_.empty() || ((mask_[id / 32] >> (id % 32)) & 1U) != 0;
    return open || std::isnan(logits_[id]) ? logits_[id] : minus_infinity;
  }

 private:
  std::span<const float> logits_;
  std::span<const std::uint32_t> mask_;
};

/// The k best by insertion into a falling list: k is small.
void top_k(const MaskedRow& row, std::span<std::int32_t> ids, std::span<float> scores) noexcept {
  std::fill(scores.begin(), scores.end(), minus_infinity);
  std::fill(ids.begin(), ids.end(), 0);
  std::size_t filled = 0;
  for (std::size_t id = 0; id < row.size(); ++id) {
    const float score = row[id];
    if (filled == scores.size() && !ranks_before(score, scores.back())) continue;
    std::size_t at = filled < scores.size() ? filled++ : filled - 1;
    for (; at > 0 && ranks_before(score, scores[at - 1]); --at) {
      scores[at] = scores[at - 1];
      ids[at] = ids[at - 1];
    }
    scores[at] = score;
    ids[at] = static_cast<std::int32_t>(id);
  }
}

float log_sum_exp(const MaskedRow& row, float max) noexcept {
  if (max == minus_infinity) return minus_infinity;
  double sum = 0;
  for (std::size_t id = 0; id < row.size(); ++id) sum += std::exp(static_cast<double>(row[id]) - max);
  return static_cast<float>(max + std::log(sum));
}

}  // namespace

void reduce_row(std::span<const float> logits, std::size_t row, const backend::StepOutputs& outputs) noexcept {
  const MaskedRow masked(logits, row, outputs.allowed);
  const std::size_t k = outputs.kind == backend::OutputKind::top_k ? static_cast<std::size_t>(outputs.k) : 1;
  const std::span<std::int32_t> ids = outputs.ids.subspan(row * k, k);
  const std::span<float> scores = outputs.scores.subspan(row * k, k);
  top_k(masked, ids, scores);
  if (outputs.kind == backend::OutputKind::top_k) outputs.log_sum_exp[row] = log_sum_exp(masked, scores[0]);
}

}  // namespace llminfer::device
