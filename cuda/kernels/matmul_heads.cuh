// What is done with heads of queries, keys and values in the launch that makes them: by the last of the blocks that
// make values of a head.
#pragma once

#include "kernels/matmul_chunk.cuh"
#include "kernels/rotate_head.cuh"

namespace llminfer::cuda {

template <int Warps>
struct HeadsRoom {
  float row[Warps][rope_kv_max_width];
  unsigned whole;  ///< a bit for each head of the block
};

/// By all threads of a block that has stored `width` results of each of `rows` rows from `first` on, of a target. Heads
/// that are whole then get what is due; `room`: nobody uses it any more.
template <int Warps>
__device__ void finish_heads(const MatMulQuantParams& p, const MatMulTarget& target, int first, int width, int rows,
                             HeadsRoom<Warps>& room) {
  const RopeKvParams& r = p.end.heads;
  const int end = min(first + width, target.columns_out);
  if (r.queries.in == nullptr || first >= end) return;
  const HeadKind kind = target.out == r.queries.in    ? HeadKind::query
                        : target.out == r.cache.in[1] ? HeadKind::value
                                                      : HeadKind::key;
  const int head_width = kind == HeadKind::value ? r.cache.sides[1].width : r.queries.head_width;
  const int first_head = first / head_width, heads = (end - 1) / head_width + 1 - first_head;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  __threadfence();
  __syncthreads();
  if (warp == 0) {
    const int from = (first_head + lane) * head_width, to = from + head_width;
    bool whole = lane < heads;
    if (whole && (from < first || to > end)) {
      const int before = kind == HeadKind::query ? 0 : r.queries.heads + (kind == HeadKind::key ? 0 : r.cache.heads);
      unsigned* counter = p.end.head_arrivals + before + first_head + lane;
      const auto blocks = static_cast<unsigned>((to - 1) / width - from / width + 1);
      whole = atomicAdd(counter, 1U) + 1 == blocks;
      if (whole) *counter = 0;  // for the next launch
    }
    const unsigned bits = __ballot_sync(0xffffffffU, whole);
    __threadfence();
    if (lane == 0) room.whole = bits;
  }
  __syncthreads();
  int turn = warp;
#pragma unroll 1
  for (unsigned left = room.whole; left != 0; left &= left - 1) {
    const int head = first_head + __ffs(static_cast<int>(left)) - 1;
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
      if (turn == 0) rotate_head(r, kind, row, head, lane, room.row[warp]);
      turn = turn == 0 ? Warps - 1 : turn - 1;
    }
  }
}

}  // namespace llminfer::cuda
