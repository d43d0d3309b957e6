// route: one warp a row, a lane has every 32nd expert; the best one is found `used` times. combine: one thread a value.
#include "kernels/experts.h"

#include "kernels/numbers.cuh"

namespace llminfer::cuda {
namespace {

constexpr int threads = 128;

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

__global__ void __launch_bounds__(32) route_kernel(RouteParams p) {
  const int lane = static_cast<int>(threadIdx.x);
  const float* in = p.in + static_cast<std::int64_t>(blockIdx.x) * p.experts;
  float* ids = p.out + static_cast<std::int64_t>(blockIdx.x) * 2 * p.used;
  float* weights = ids + p.used;
  Scores scores;
  if (p.gating == RouteGating::softmax) {
    float top = -INFINITY;
    for (int e = lane; e < p.experts; e += 32) top = fmaxf(top, in[e]);
    scores.top = warp_max(top);
    float sum = 0;
    for (int e = lane; e < p.experts; e += 32) sum += expf(in[e] - scores.top);
    scores.sum = warp_sum(sum);
  }
  // Without a bias logits have the order of scores, and do not run into each other by rounding.
  const auto rank = [&](int e) { return p.bias != nullptr ? scores.score(p, in[e]) + p.bias[e] : in[e]; };
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
      weights[s] = scores.score(p, in[best_id]);
    }
  }
  if (lane != 0) return;
  float sum = 0;
  if (p.gating == RouteGating::softmax_selected) {
    float top = weights[0];
    for (int s = 1; s < p.used; ++s) top = fmaxf(top, weights[s]);
    for (int s = 0; s < p.used; ++s) sum += weights[s] = expf(weights[s] - top);
    for (int s = 0; s < p.used; ++s) weights[s] /= sum;
    sum = 0;
  }
  for (int s = 0; s < p.used; ++s) sum += weights[s];
  for (int s = 0; s < p.used; ++s) weights[s] = (p.normalize ? weights[s] / sum : weights[s]) * p.scale;
}

__global__ void __launch_bounds__(threads) combine_kernel(CombineParams p) {
  const int i = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  if (i >= p.width) return;
  const float* weights = p.route + static_cast<std::int64_t>(blockIdx.y) * 2 * p.used + p.used;
  float sum = 0;
  for (int s = 0; s < p.used; ++s) {
    sum += weights[s] * p.in[(static_cast<std::int64_t>(blockIdx.y) * p.used + s) * p.width + i];
  }
  p.out[static_cast<std::int64_t>(blockIdx.y) * p.width + i] = sum;
}

}  // namespace

cudaError_t launch(const RouteParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  route_kernel<<<static_cast<unsigned>(p.rows), 32, 0, stream>>>(p);
  return cudaGetLastError();
}

cudaError_t launch(const CombineParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.rows > 65535) return cudaErrorInvalidValue;
  combine_kernel<<<dim3(blocks_for(p.width, threads), static_cast<unsigned>(p.rows)), threads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
