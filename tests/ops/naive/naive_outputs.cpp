#include <algorithm>
#include <cmath>

#include "naive_program.hpp"

namespace naive {
namespace {

constexpr float lowest = -HUGE_VALF;

/// A logit behind its mask, which does not hide what is no number.
float logit(const Step& step, const StepOutputs& outputs, std::size_t row, std::size_t token) {
  const std::size_t words = (step.width(step.graph.logits) + 31) / 32;
  const auto value = static_cast<float>(step.row(step.graph.logits, row)[token]);
  if (outputs.allowed.empty() || std::isnan(value)) return value;
  return (outputs.allowed[row * words + token / 32] >> (token % 32) & 1) == 0 ? lowest : value;
}

/// What is no number comes first.
bool better(float a, float b) { return a > b || (std::isnan(a) && !std::isnan(b)); }

/// The n-th best: falling, lower ids first among equals. `taken[0 .. n)` were chosen before.
std::int32_t next_best(const Step& step, const StepOutputs& outputs, std::size_t row, const std::int32_t* taken,
                       std::size_t n) {
  std::int32_t best = -1;
  for (std::size_t t = 0; t < step.width(step.graph.logits); ++t) {
    const auto id = static_cast<std::int32_t>(t);
    if (std::find(taken, taken + n, id) != taken + n) continue;
    const auto rank = [&](std::int32_t token) { return logit(step, outputs, row, static_cast<std::size_t>(token)); };
    if (best < 0 || better(rank(id), rank(best))) best = id;
  }
  return best;
}

float log_sum_exp(const Step& step, const StepOutputs& outputs, std::size_t row, float largest) {
  if (largest == lowest) return lowest;
  double sum = 0;
  for (std::size_t t = 0; t < step.width(step.graph.logits); ++t) {
    sum += std::exp(static_cast<double>(logit(step, outputs, row, t)) - largest);
  }
  return static_cast<float>(largest + std::log(sum));
}

}  // namespace

void give_out(const Step& step, const StepOutputs& outputs) noexcept {
  const std::size_t rows = step.batch.output_rows.size();
  if (outputs.kind == OutputKind::logits || outputs.kind == OutputKind::hidden) {
    const ValueId id = outputs.kind == OutputKind::hidden ? step.graph.hidden : step.graph.logits;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < step.width(id); ++i) {
        outputs.values[r * step.width(id) + i] = static_cast<float>(step.row(id, r)[i]);
      }
    }
    return;
  }
  const std::size_t k = outputs.kind == OutputKind::top_k ? static_cast<std::size_t>(outputs.k) : 1;
  for (std::size_t r = 0; r < rows; ++r) {
    std::int32_t* ids = outputs.ids.data() + r * k;
    for (std::size_t n = 0; n < k; ++n) {
      ids[n] = next_best(step, outputs, r, ids, n);
      outputs.scores[r * k + n] = logit(step, outputs, r, static_cast<std::size_t>(ids[n]));
    }
    if (outputs.kind == OutputKind::top_k)
      outputs.log_sum_exp[r] = log_sum_exp(step, outputs, r, outputs.scores[r * k]);
  }
}

}  // namespace naive
