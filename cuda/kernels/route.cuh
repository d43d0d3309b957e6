// The choice of experts by a warp a row, and the order of rows by their experts, by one warp for all: in launches of
// their own, or by the last block of the launch that made the logits.
#pragma once

#include "kernels/experts.h"
#include "kernels/numbers.cuh"

namespace llminfer::cuda {

/// Logits of so many experts are copied to shared memory: each is looked at for every choice.
constexpr int route_experts_near = 256;

/// What an expert is chosen by and weighed by, from its logit.
struct Scores {
  float top = 0;  // largest logit
  float sum = 1;  // of exp(logit - top)
  __device__ float score(const RouteParams& p, float logit) const {
    if (p.gating == RouteGating::softmax) return expf(logit - top) / sum;
    if (p.gating == RouteGating::sigmoid) return 1.0F / (1.0F + expf(-logit));
    return logit;
  }
};

/// For each token and choice in a fixed order, one choice of 32 tokens at a time: use(there, row, token, expert).
template <class Use>
__device__ void each_choice(const RouteParams& p, int lane, Use use) {
  for (int first = 0; first < p.rows; first += 32) {
    const int token = first + lane;
    const float* ids = p.out + static_cast<std::int64_t>(min(token, p.rows - 1)) * 2 * p.used;
    for (int s = 0; s < p.used; ++s) {
      use(token < p.rows, token * p.used + s, token, static_cast<int>(__ldcg(ids + s)));
    }
  }
}

/// The sum of the lanes up to this one.
__device__ inline int sum_until(int v, int lane) {
  for (int d = 1; d < 32; d *= 2) {
    const int other = __shfl_up_sync(0xffffffffU, v, d);
    if (lane >= d) v += other;
  }
  return v;
}

/// The tiles of the experts, in the order of those, and their runs; `next`: what rows an expert has, then where its
/// rows begin.
__device__ inline void place_tiles(const ExpertTiles& sorted, int experts, int lane, int* next) {
  int tiles = 0, runs = 0;
  for (int first = 0; first < experts; first += 32) {
    const int expert = first + lane, rows = expert < experts ? next[expert] : 0, mine = (rows + 7) / 8;
    const int until = sum_until(mine, lane), at = tiles + until - mine;
    for (int i = 0; i < mine; ++i) sorted.tiles[at + i] = {expert, min(8, rows - 8 * i)};
    for (int i = rows; i < 8 * mine; ++i) sorted.rows[8 * at + i] = sorted.tokens[8 * at + i] = -1;
    if (expert < experts) next[expert] = 8 * at;
    tiles += __shfl_sync(0xffffffffU, until, 31);
    if (sorted.runs == nullptr) continue;
    const int own_runs = (mine + expert_run_tiles - 1) / expert_run_tiles, runs_until = sum_until(own_runs, lane);
    for (int i = 0; i < own_runs; ++i) {
      const int done = expert_run_tiles * i;
      sorted.runs[runs + runs_until - own_runs + i] = {expert, at + done, min(expert_run_tiles, mine - done)};
    }
    runs += __shfl_sync(0xffffffffU, runs_until, 31);
  }
  for (int i = tiles + lane; i < sorted.count; i += 32) sorted.tiles[i] = {0, 0};
  for (int i = 8 * tiles + lane; i < 8 * sorted.count; i += 32) sorted.rows[i] = sorted.tokens[i] = -1;
  for (int i = runs + lane; i < sorted.run_count; i += 32) sorted.runs[i] = {0, 0, 0};
}

/// By one warp. `next`: room for a number of each expert.
__device__ inline void sort_by_expert(const RouteParams& p, int lane, int* next) {
  for (int e = lane; e < p.experts; e += 32) next[e] = 0;
  __syncwarp();
  const auto lanes_of = [](bool there, int expert) { return __match_any_sync(0xffffffffU, there ? expert : -1); };
  const unsigned lower = (1U << lane) - 1;
  each_choice(p, lane, [&](bool there, int, int, int expert) {
    const unsigned same = lanes_of(there, expert);
    if (there && (same & lower) == 0) next[expert] += __popc(same);
    __syncwarp();
  });
  place_tiles(p.sorted, p.experts, lane, next);
  __syncwarp();
  each_choice(p, lane, [&](bool there, int row, int token, int expert) {
    const unsigned same = lanes_of(there, expert);
    const int first = there ? next[expert] : 0;
    __syncwarp();
    if (there) {
      p.sorted.rows[first + __popc(same & lower)] = row;
      p.sorted.tokens[first + __popc(same & lower)] = token;
      if ((same & lower) == 0) next[expert] = first + __popc(same);
    }
    __syncwarp();
  });
}

/// What a token's experts are weighed by in the end. All lanes add up the same, in the order of the choices.
__device__ inline void finish_weights(const RouteParams& p, int lane, float* weights) {
  float top = weights[0], total = 0, sum = 0;
  const bool selected = p.gating == RouteGating::softmax_selected;
  for (int s = 1; s < p.used; ++s) top = fmaxf(top, weights[s]);
  for (int s = 0; s < p.used; ++s) total += expf(weights[s] - top);
  const auto weight = [&](int s) { return selected ? expf(weights[s] - top) / total : weights[s]; };
  for (int s = 0; s < p.used; ++s) sum += weight(s);
  for (int first = 0; first < p.used; first += 32) {
    const int s = first + lane;
    const float w = weight(min(s, p.used - 1));
    __syncwarp();
    if (s < p.used) weights[s] = (p.normalize ? w / sum : w) * p.scale;
  }
}

/// The choice of one row, by one warp. `room`: for route_experts_near logits.
__device__ inline void route_row(const RouteParams& p, int row, int lane, float* room) {
  const float* logits = p.in + static_cast<std::int64_t>(row) * p.experts;
  const bool near = p.experts <= route_experts_near;
  if (near) {
    for (int e = lane; e < p.experts; e += 32) room[e] = __ldcg(logits + e);
    __syncwarp();
  }
  const auto in = [&](int e) { return near ? room[e] : __ldcg(logits + e); };
  float* ids = p.out + static_cast<std::int64_t>(row) * 2 * p.used;
  float* weights = ids + p.used;
  Scores scores;
  if (p.gating == RouteGating::softmax) {
    float top = -INFINITY;
    for (int e = lane; e < p.experts; e += 32) top = fmaxf(top, in(e));
    scores.top = warp_max(top);
    float sum = 0;
    for (int e = lane; e < p.experts; e += 32) sum += expf(in(e)-scores.top);
    scores.sum = warp_sum(sum);
  }
  // Without a bias logits have the order of scores, and do not run into each other by rounding.
  const auto rank = [&](int e) { return p.bias != nullptr ? scores.score(p, in(e)) + p.bias[e] : in(e); };
  float last = INFINITY;  // rank and id of the one chosen before
  int last_id = -1;
  for (int s = 0; s < p.used; ++s) {
    float best = -INFINITY;
    int best_id = p.experts;
    for (int e = lane; e < p.experts; e += 32) {
      const float r = rank(e);
      const bool left = r < last || (r == last && e > last_id);
      if (left && (best_id == p.experts || r > best)) {
        best = r;
        best_id = e;
      }
    }
    for (int d = 16; d > 0; d /= 2) {
      const float other = __shfl_xor_sync(0xffffffffU, best, d);
      const int other_id = __shfl_xor_sync(0xffffffffU, best_id, d);
      const bool better =
          other_id < p.experts && (best_id == p.experts || other > best || (other == best && other_id < best_id));
      best = better ? other : best;
      best_id = better ? other_id : best_id;
    }
    last = best;
    last_id = best_id;
    if (lane == 0) {
      best_id = min(best_id, p.experts - 1);  // logits that are NaN have no order
      ids[s] = static_cast<float>(best_id);
      weights[s] = scores.score(p, in(best_id));
    }
  }
  __syncwarp();
  finish_weights(p, lane, weights);
}

}  // namespace llminfer::cuda
