#include "device/cpu/route.h"

#include <algorithm>
#include <cstring>

namespace llminfer::cpu {
namespace {

/// The expert not yet taken with the highest rank, the lowest id on ties. NaN ranks below everything.
std::int32_t best_of(const float* rank, const float* out, std::int32_t taken, std::int32_t experts) noexcept {
  std::int32_t best = -1;
  for (std::int32_t e = 0; e < experts; ++e) {
    bool free = true;
    for (std::int32_t s = 0; s < taken; ++s) free = free && out[s] != static_cast<float>(e);
    if (free && (best < 0 || rank[e] > rank[best] || (rank[best] != rank[best] && rank[e] == rank[e]))) best = e;
  }
  return best;
}

float largest(const float* in, std::int32_t n) noexcept {
  float top = in[0];
  for (std::int32_t i = 1; i < n; ++i) top = in[i] > top ? in[i] : top;
  return top;
}

/// Probabilities of all experts, or the logits themselves where softmax comes after the choice.
void scores_of(const Kernels& kernels, const backend::MoeRoute& op, const float* logits, float* scores) noexcept {
  switch (op.gating) {
    case backend::Gating::softmax: {
      const float total = kernels.exponentials(logits, scores, op.experts, largest(logits, op.experts));
      for (std::int32_t e = 0; e < op.experts; ++e) scores[e] /= total;
      return;
    }
    case backend::Gating::sigmoid:
      kernels.sigmoid(logits, scores, op.experts);
      return;
    case backend::Gating::softmax_selected:
      break;
  }
  std::memcpy(scores, logits, sizeof(float) * static_cast<std::size_t>(op.experts));
}

}  // namespace

void route_row(const Kernels& kernels, const backend::MoeRoute& op, const float* logits, const float* bias, float* out,
               float* scratch) noexcept {
  float* scores = scratch;
  float* rank = scratch + op.experts;
  scores_of(kernels, op, logits, scores);
  for (std::int32_t e = 0; e < op.experts; ++e) rank[e] = bias != nullptr ? scores[e] + bias[e] : scores[e];
  float* weights = out + op.used;
  for (std::int32_t s = 0; s < op.used; ++s) {
    const std::int32_t e = best_of(rank, out, s, op.experts);
    out[s] = static_cast<float>(e);
    weights[s] = scores[e];
  }
  if (op.gating == backend::Gating::softmax_selected) {
    const float total = kernels.exponentials(weights, weights, op.used, largest(weights, op.used));
    for (std::int32_t s = 0; s < op.used; ++s) weights[s] /= total;
  }
  if (op.normalize) {
    float total = 0.0F;
    for (std::int32_t s = 0; s < op.used; ++s) total += weights[s];
    for (std::int32_t s = 0; s < op.used; ++s) weights[s] /= total;
  }
  for (std::int32_t s = 0; s < op.used; ++s) weights[s] *= op.scale;
}

void sort_by_expert(const float* route, std::int64_t rows, std::int32_t used, std::int64_t experts,
                    const ExpertLists& lists) noexcept {
  const auto expert_of = [&](std::int64_t pair) {
    const float id = route[pair / used * 2 * used + pair % used];
    return id >= 0.0F && id < static_cast<float>(experts) ? static_cast<std::int64_t>(id) : std::int64_t{0};
  };
  std::fill(lists.starts, lists.starts + experts + 1, 0);
  for (std::int64_t pair = 0; pair < rows * used; ++pair) ++lists.starts[expert_of(pair) + 1];
  for (std::int64_t e = 0; e < experts; ++e) lists.starts[e + 1] += lists.starts[e];
  // Placing counts each start up to its end; the ends are the next starts, so shift them back afterwards.
  for (std::int64_t pair = 0; pair < rows * used; ++pair) {
    const std::int32_t at = lists.starts[expert_of(pair)]++;
    lists.pairs[at] = static_cast<std::int32_t>(pair);
    lists.rows[at] = static_cast<std::int32_t>(pair / used);
  }
  for (std::int64_t e = experts; e > 0; --e) lists.starts[e] = lists.starts[e - 1];
  lists.starts[0] = 0;
}

}  // namespace llminfer::cpu
