#include <algorithm>
#include <cmath>

#include "device/reference/ops.h"

namespace llminfer::device::reference {
namespace {

/// Softmax of n values in place.
void softmax(double* values, std::int32_t n) {
  const double max = *std::max_element(values, values + n);
  double sum = 0;
  for (std::int32_t i = 0; i < n; ++i) sum += values[i] = std::exp(values[i] - max);
  for (std::int32_t i = 0; i < n; ++i) values[i] /= sum;
}

/// The id of the best score not in `chosen[0 .. n)`, lowest id on ties.
std::int32_t best_left(const double* scores, std::int32_t experts, const float* chosen, std::int32_t n) {
  std::int32_t best = -1;
  for (std::int32_t e = 0; e < experts; ++e) {
    if (std::find(chosen, chosen + n, static_cast<float>(e)) != chosen + n) continue;
    if (best < 0 || scores[e] > scores[best]) best = e;
  }
  return best;
}

}  // namespace

void run_op(const backend::MoeRoute& op, const Step& step) {
  const float* bias = op.selection_bias == backend::none ? nullptr : step.weight(op.selection_bias).values.data();
  double* score = step.scores.data();    // of each expert
  double* select = score + op.experts;   // what the choice goes by
  double* chosen = select + op.experts;  // weights of the chosen
  for (std::int64_t r = 0; r < step.rows(op.in); ++r) {
    const float* in = step.data(op.in, r);
    std::copy_n(in, op.experts, score);
    if (op.gating == backend::Gating::softmax) softmax(score, op.experts);
    if (op.gating == backend::Gating::sigmoid) {
      for (std::int32_t e = 0; e < op.experts; ++e) score[e] = 1.0 / (1.0 + std::exp(-score[e]));
    }
    for (std::int32_t e = 0; e < op.experts; ++e) select[e] = score[e] + (bias == nullptr ? 0.0F : bias[e]);
    float* ids = step.data(op.out, r);
    for (std::int32_t s = 0; s < op.used; ++s) {
      const std::int32_t e = best_left(select, op.experts, ids, s);
      ids[s] = static_cast<float>(e);
      chosen[s] = score[e];
    }
    if (op.gating == backend::Gating::softmax_selected) softmax(chosen, op.used);
    double sum = 0;
    for (std::int32_t s = 0; s < op.used; ++s) sum += chosen[s];
    for (std::int32_t s = 0; s < op.used; ++s) {
      ids[op.used + s] = static_cast<float>((op.normalize ? chosen[s] / sum : chosen[s]) * op.scale);
    }
  }
}

void run_op(const backend::MoeCombine& op, const Step& step) {
  const std::int64_t width = step.width(op.out);
  for (std::int64_t r = 0; r < step.rows(op.in); ++r) {
    const float* weights = step.data(op.route, r) + op.used;
    float* out = step.data(op.out, r);
    std::fill_n(out, width, 0.0F);
    for (std::int32_t s = 0; s < op.used; ++s) {
      const float* in = step.data(op.in, r) + s * width;
      for (std::int64_t i = 0; i < width; ++i) out[i] += weights[s] * in[i];
    }
  }
}

}  // namespace llminfer::device::reference
