// What warps and blocks of attention_mma found becomes one result: warps' outputs are added in shared memory in the
// order of the warps, ranges' in memory, by the block that comes last, in the order of the ranges.
#pragma once

#include "kernels/attention_mma.h"
#include "kernels/attention_page_table.cuh"
#include "kernels/attention_query.cuh"

namespace llminfer::cuda {

constexpr int attention_threads = 32 * attention_warps;

/// Maximum and sum of heads 2 t and 2 t + 1.
struct Softmax {
  float best[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // of this lane's keys
};

/// 2^(a - b), 0 where a is -infinity even if b is too.
__device__ inline float fade_of(float a, float b) { return a == -INFINITY ? 0.0F : power_of_two(a - b); }

/// In powers of two.
__device__ inline float sink_of(const AttentionParams& p, int head) {
  return p.sinks != nullptr ? p.sinks[head] * log2_e : -INFINITY;
}

/// Where a range leaves what it found of a head: maximum, sum, output.
__device__ inline float* partial_of(const AttentionParams& p, const AttentionRoom& room, int range, int head) {
  const unsigned row = (blockIdx.x * static_cast<unsigned>(room.ranges) + static_cast<unsigned>(range)) *
                           static_cast<unsigned>(p.heads) +
                       static_cast<unsigned>(head);
  return room.partials + static_cast<std::uint64_t>(row) * static_cast<unsigned>(p.v.width + 2);
}

/// The heads of the block from what all ranges left, in their order.
template <int D>
__device__ void merge_ranges(const AttentionParams& p, const AttentionRoom& room, int token, const BlockHeads& heads,
                             bool there) {
  const int step = p.heads * (D + 2);
#pragma unroll 1
  for (int i = 2 * static_cast<int>(threadIdx.x); i < heads.count * D; i += 2 * attention_threads) {
    const int column = i % D, head = heads.first + i / D;
    float2 value = make_float2(0, 0);
    if (there) {
      const float* from = partial_of(p, room, 0, head);
      const float sink = sink_of(p, head);
      float best = sink;
      for (int r = 0; r < room.ranges; ++r) best = fmaxf(best, __ldcg(from + r * step));
      const float base = best == -INFINITY ? 0.0F : best;
      float total = power_of_two(sink - base);
      for (int r = 0; r < room.ranges; ++r, from += step) {
        const float2 of_row = __ldcg(reinterpret_cast<const float2*>(from)),
                     more = __ldcg(reinterpret_cast<const float2*>(from + 2 + column));
        const float fade = power_of_two(of_row.x - base);
        total += of_row.y * fade;
        value.x += more.x * fade;
        value.y += more.y * fade;
      }
      value.x /= total;
      value.y /= total;
    }
    *reinterpret_cast<float2*>(p.out + (static_cast<std::int64_t>(token) * p.heads + head) * D + column) = value;
  }
}

/// What warps leave of rows for the others of their block, and the block's results.
struct WarpsShared {
  float best[attention_warps][8], total[attention_warps][8];
  float row_best[8], row_total[8];

  __device__ float best_of(int row) const {
    float v = -INFINITY;
    for (int w = 0; w < attention_warps; ++w) v = fmaxf(v, best[w][row]);
    return v;
  }
  /// Maximum and sum; where the block has all keys what its output is to be multiplied by in place of the sum.
  template <class Pages>
  __device__ void finish_row(int row, bool all, float sink) {
    const float most = best_of(row);
    float sum = 0;
    for (int w = 0; w < attention_warps; ++w) sum += total[w][row] * fade_of(best[w][row], most);
    sum *= Pages::weight_unit;
    const float top = fmaxf(most, sink), fade = fade_of(most, top);
    row_best[row] = most;
    row_total[row] = all ? fade / (sum * fade + fade_of(sink, top)) : sum;
  }
};

template <int D, int RoomBytes, int QueryWords>
struct AttentionShared {
  union {
    float merged[8][D + 4];
    uint4 rooms[attention_warps][RoomBytes / 16];  // while keys are walked
  };
  WarpsShared warps;
  uint2 query[QueryWords];
};
template <class Pages, int D>
using SharedOf = AttentionShared<D, Pages::room_bytes, Query<Pages, D>::shared_words>;

/// The warps' results, added in their order, in `shared`.
template <class Pages, int D>
__device__ void merge_warps(const AttentionParams& p, const AttentionRoom& room, const Pages& pages,
                            SharedOf<Pages, D>& shared, const Softmax& softmax, const float (&o)[D / 16][4],
                            const BlockHeads& heads) {
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
  WarpsShared& warps = shared.warps;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float total = softmax.sum[i];
    for (int d = 4; d < 32; d *= 2) total += __shfl_xor_sync(0xffffffffU, total, d);
    if (g != 0) continue;
    warps.best[warp][2 * t + i] = softmax.best[i];
    warps.total[warp][2 * t + i] = total;
  }
  __syncthreads();
  if (thread < heads.count) {
    warps.finish_row<Pages>(thread, room.ranges == 1, sink_of(p, heads.first + thread));
  }
  for (int w = 0; w < attention_warps; ++w) {
    if (warp == w) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = 2 * t + i;
        if (row >= heads.count) break;
        const float scale = fade_of(softmax.best[i], warps.best_of(row)) * Pages::output_unit;
#pragma unroll
        for (int step = 0; step < D / 16; ++step) {
#pragma unroll
          for (int upper = 0; upper < 2; ++upper) {
            float& to = shared.merged[row][Pages::column(step, upper, g)];
            const float mine = pages.output(o[step], step, 2 * upper + i) * scale;
            to = w == 0 ? mine : to + mine;
          }
        }
      }
    }
    __syncthreads();
  }
}

/// A block's rows: to `out` if there is one range of keys, else to the partial results.
template <int D, class Shared>
__device__ void leave(const AttentionParams& p, const AttentionRoom& room, const Shared& shared, int token,
                      const BlockHeads& heads, int range) {
  for (int i = 2 * static_cast<int>(threadIdx.x); i < heads.count * D; i += 2 * attention_threads) {
    const int row = i / D, column = i % D, head = heads.first + row;
    float2 value = *reinterpret_cast<const float2*>(&shared.merged[row][column]);
    if (room.ranges == 1) {
      const float factor = shared.warps.row_total[row];
      value.x *= factor, value.y *= factor;
      *reinterpret_cast<float2*>(p.out + (static_cast<std::int64_t>(token) * p.heads + head) * D + column) = value;
    } else {
      float* to = partial_of(p, room, range, head);
      *reinterpret_cast<float2*>(to + 2 + column) = value;
      if (column != 0) continue;
      *reinterpret_cast<float2*>(to) = make_float2(shared.warps.row_best[row], shared.warps.row_total[row]);
    }
  }
}

}  // namespace llminfer::cuda
