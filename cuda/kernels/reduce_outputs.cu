// One block a row. One pass finds the largest logit. For more than one, the k-th largest is found digit by digit of 8
// bits (counts of digits in shared memory), then what lies above it is collected, and of what is equal the lowest ids;
// the k are put in order by counting for each how many come before it. Every step has one result whatever the order of
// the threads: the ids of a tie are numbered along the row.
//
// Reads a row up to seven times, six of them from L2. Limits: k at most reduce_max_k. Speed not yet measured.
#include "kernels/reduce_outputs.h"

#include "kernels/numbers.cuh"

namespace llminfer::cuda {
namespace {

constexpr int threads = 1024;
constexpr int warps = threads / 32;

/// A row behind its mask.
struct Row {
  const float* logits;
  const std::uint32_t* allowed;
  int width;

  __device__ float value(int id) const {
    const bool open = allowed == nullptr || (allowed[id / 32] >> (id % 32) & 1U) != 0;
    const float v = logits[id];
    return open || v != v ? v : -INFINITY;
  }
};

/// Whole numbers in the order of floats; both zeros are one, and every NaN is above all.
__device__ unsigned key_of(float v) {
  if (v != v) return 0xffffffffU;
  const unsigned bits = __float_as_uint(v == 0 ? 0.0F : v);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
__device__ float value_of(unsigned key) { return __uint_as_float((key & 0x80000000U) != 0 ? key & 0x7fffffffU : ~key); }

/// A logit and its token.
struct Choice {
  unsigned key;
  int id;
  __device__ bool before(const Choice& other) const { return key > other.key || (key == other.key && id < other.id); }
};

struct Room {
  unsigned counts[256];
  Choice warp_best[warps];
  float warp_sums[warps];
  int warp_counts[warps];
  Choice chosen[reduce_max_k];
  int above;  // digits seen above the one in question, then: choices collected
  unsigned digit;
};

__device__ Choice best_of(const Row& row, Room& room) {
  Choice best{0, row.width};
  for (int id = static_cast<int>(threadIdx.x); id < row.width; id += threads) {
    const Choice c{key_of(row.value(id)), id};
    if (c.before(best)) best = c;
  }
  const auto reduce = [](Choice c) {
    for (int d = 16; d > 0; d /= 2) {
      const Choice other{__shfl_xor_sync(0xffffffffU, c.key, d), __shfl_xor_sync(0xffffffffU, c.id, d)};
      if (other.before(c)) c = other;
    }
    return c;
  };
  best = reduce(best);
  if (threadIdx.x % 32 == 0) room.warp_best[threadIdx.x / 32] = best;
  __syncthreads();
  best = reduce(room.warp_best[threadIdx.x % 32]);
  return best;
}

__device__ float log_sum_exp(const Row& row, float largest, Room& room) {
  if (largest == -INFINITY) return -INFINITY;
  float sum = 0;
  for (int id = static_cast<int>(threadIdx.x); id < row.width; id += threads) sum += expf(row.value(id) - largest);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) room.warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  return largest + logf(warp_sum(room.warp_sums[threadIdx.x % 32]));
}

/// The key of the k-th largest; `above`: how many are larger.
__device__ unsigned select(const Row& row, int k, Room& room, int& above) {
  unsigned prefix = 0;
  above = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = static_cast<int>(threadIdx.x); i < 256; i += threads) room.counts[i] = 0;
    __syncthreads();
    // Most logits have few first digits: lanes with the same one are counted together.
    const int whole = (row.width + 31) / 32 * 32;
    for (int id = static_cast<int>(threadIdx.x); id < whole; id += threads) {
      const unsigned key = id < row.width ? key_of(row.value(id)) : 0;
      const bool counts = id < row.width && (shift == 24 || key >> (shift + 8) == prefix >> (shift + 8));
      const unsigned digit = counts ? key >> shift & 255U : 256;
      const unsigned same = __match_any_sync(0xffffffffU, digit);
      if (counts && __ffs(static_cast<int>(same)) - 1 == static_cast<int>(threadIdx.x % 32)) {
        atomicAdd(&room.counts[digit], static_cast<unsigned>(__popc(same)));
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = 255;
      for (; digit > 0 && above + static_cast<int>(room.counts[digit]) < k; --digit) {
        above += static_cast<int>(room.counts[digit]);
      }
      room.digit = static_cast<unsigned>(digit);
      room.above = above;
    }
    __syncthreads();
    above = room.above;
    prefix |= room.digit << shift;
  }
  return prefix;
}

/// The keys above the threshold, and the first ones that are equal to it.
__device__ void collect(const Row& row, int k, unsigned threshold, int above, Room& room) {
  __syncthreads();
  if (threadIdx.x == 0) room.above = 0;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int equal = 0;  // so far
  for (int start = 0; start < row.width; start += threads) {
    const int id = start + static_cast<int>(threadIdx.x);
    const unsigned key = id < row.width ? key_of(row.value(id)) : 0;
    if (id < row.width && key > threshold) room.chosen[atomicAdd(&room.above, 1)] = {key, id};
    if (above + equal >= k) continue;  // the same for all threads
    const bool tie = id < row.width && key == threshold;
    const unsigned ties = __ballot_sync(0xffffffffU, tie);
    if (lane == 0) room.warp_counts[warp] = __popc(ties);
    __syncthreads();
    int at = above + equal + __popc(ties & ((1U << lane) - 1U));
    for (int w = 0; w < warps; ++w) {
      const int n = room.warp_counts[w];
      if (w < warp) at += n;
      equal += n;
    }
    if (tie && at < k) room.chosen[at] = {key, id};
    __syncthreads();
  }
  __syncthreads();
}

__global__ void __launch_bounds__(threads) reduce_kernel(ReduceParams p) {
  __shared__ Room room;
  const std::int64_t r = blockIdx.x;
  const Row row{p.logits + r * p.width, p.allowed == nullptr ? nullptr : p.allowed + r * ((p.width + 31) / 32),
                p.width};
  const Choice best = best_of(row, room);
  if (p.log_sum_exp != nullptr) {
    const float total = log_sum_exp(row, value_of(best.key), room);
    if (threadIdx.x == 0) p.log_sum_exp[r] = total;
  }
  const int k = min(p.k, p.width);
  if (p.k == 1) {
    if (threadIdx.x == 0) {
      p.ids[r] = best.id;
      p.scores[r] = value_of(best.key);
    }
    return;
  }
  int above = 0;
  const unsigned threshold = select(row, k, room, above);
  collect(row, k, threshold, above, room);
  for (int i = static_cast<int>(threadIdx.x); i < p.k; i += threads) {
    if (i >= k) {
      p.ids[r * p.k + i] = 0;
      p.scores[r * p.k + i] = -INFINITY;
      continue;
    }
    int place = 0;
    for (int j = 0; j < k; ++j) place += room.chosen[j].before(room.chosen[i]) ? 1 : 0;
    p.ids[r * p.k + place] = room.chosen[i].id;
    p.scores[r * p.k + place] = value_of(room.chosen[i].key);
  }
}

}  // namespace

cudaError_t launch(const ReduceParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.k < 1 || p.k > reduce_max_k || p.width < 1) return cudaErrorInvalidValue;
  reduce_kernel<<<static_cast<unsigned>(p.rows), threads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
