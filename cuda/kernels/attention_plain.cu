// 32 keys at a time: a lane has one key's score, then the warp adds the 32 values, a lane owning every 32nd value of
// the output. Softmax runs along: with each block of keys the maximum may rise, and what was summed is scaled down.
#include "kernels/attention_plain.h"

#include "kernels/kv_rows.cuh"

namespace llminfer::cuda {
namespace {

constexpr int max_per_lane = attention_plain_max_width / 32;

template <KvType K>
__device__ float score_of(const AttentionParams& p, const float* q, const std::int32_t* pages, int key, int kv_head) {
  const std::uint8_t* block = kv_block(p.k, pages, key, kv_head);
  float dot = 0;
  for (int i = 0; i < p.k.width; ++i) dot += q[i] * kv_value<K>(block, p.k.width, key % kv_page, i);
  const float score = dot * p.scale;
  return p.cap > 0 ? p.cap * tanhf(score / p.cap) : score;
}

/// Blocks of a multiprocessor that the compiler has to leave registers for. Where none are named, those of compute
/// capability 10.0 and 12.0 choose so many that some spill.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int plain_blocks = 1;
#else
constexpr int plain_blocks = 0;  // none are named
#endif

template <KvType K, KvType V>
__global__ void __launch_bounds__(32, plain_blocks) attention_plain_kernel(AttentionParams p) {
  __shared__ float q[attention_plain_max_width];
  const int head = static_cast<int>(blockIdx.x), token = static_cast<int>(blockIdx.y);
  const int lane = static_cast<int>(threadIdx.x), kv_head = head / (p.heads / p.kv_heads);
  const int sequence = p.step.sequence_of[token], position = p.step.positions[token];
  const int last = p.full ? p.step.last[sequence] : position;
  const int first = p.window > 0 ? max(0, position - p.window + 1) : 0;
  const std::int32_t* pages = p.step.pages + p.step.pages_at[sequence];
  const std::int64_t row = static_cast<std::int64_t>(token) * p.heads + head;
  if (position < 0) {
    for (int i = lane; i < p.v.width; i += 32) p.out[row * p.v.width + i] = 0;
    return;
  }
  for (int i = lane; i < p.k.width; i += 32) q[i] = p.q[row * p.k.width + i];
  __syncwarp();

  float best = p.sinks != nullptr ? p.sinks[head] : -INFINITY;
  float sum = p.sinks != nullptr ? 1.0F : 0.0F;
  float out[max_per_lane] = {};
  for (int start = first; start <= last; start += 32) {
    const int key = start + lane;
    const float score = key <= last ? score_of<K>(p, q, pages, key, kv_head) : -INFINITY;
    const float top = fmaxf(best, warp_max(score));
    const float fade = expf(best - top), weight = expf(score - top);
    best = top;
    sum = sum * fade + warp_sum(weight);
#pragma unroll
    for (int n = 0; n < max_per_lane; ++n) out[n] *= fade;
    for (int j = 0; j < 32 && start + j <= last; ++j) {
      const float w = __shfl_sync(0xffffffffU, weight, j);
      const std::uint8_t* block = kv_block(p.v, pages, start + j, kv_head);
#pragma unroll
      for (int n = 0; n < max_per_lane; ++n) {
        const int i = 32 * n + lane;
        if (i < p.v.width) out[n] += w * kv_value<V>(block, p.v.width, (start + j) % kv_page, i);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < max_per_lane; ++n) {
    const int i = 32 * n + lane;
    if (i < p.v.width) p.out[row * p.v.width + i] = out[n] / sum;
  }
}

}  // namespace

cudaError_t launch_attention_plain(const AttentionParams& p, cudaStream_t stream) {
  if (p.tokens == 0) return cudaSuccess;
  if (p.tokens > 65535 || p.k.width > attention_plain_max_width || p.v.width > attention_plain_max_width) {
    return cudaErrorInvalidValue;
  }
  const dim3 grid(static_cast<unsigned>(p.heads), static_cast<unsigned>(p.tokens));
  bool known = false;
  with_kv_type(p.k.type, [&](auto k) {
    known =
        with_kv_type(p.v.type, [&](auto v) { attention_plain_kernel<k.value, v.value><<<grid, 32, 0, stream>>>(p); });
  });
  return known ? cudaGetLastError() : cudaErrorInvalidValue;
}

}  // namespace llminfer::cuda
