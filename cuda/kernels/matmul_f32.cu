// Two kernels, both with every byte of the weights read once by 16 bytes a lane and a fixed order of additions.
//
// split: one row, or a few where the weights have few rows, as those of a router have. A block takes four rows of
// weights, so that what it reads of activations is at most a quarter of that for each row of them; its eight warps
// share the columns, 128 in turn. Sums of lanes meet by exchange, those of warps in shared memory, in the order of the
// warps.
//
// tile: a block makes 32 TN rows of weights times 8 TM rows of activations. Both come into shared memory ahead of their
// use, Depth columns at a time; a thread multiplies TN by TM of them, column by column: sums have the order of
// matmul_plain, and its bits. Rows lie Depth + 4 floats apart, so that eight of them at the same columns are 128
// different bytes of the banks.
//
// One row is bound by memory: 4 bytes for two operations. 64 rows of a tile of 128 x 64 are bound by arithmetic. Not
// yet measured.
#include "kernels/matmul_f32.h"

#include "kernels/arrival.cuh"
#include "kernels/copy_async.cuh"
#include "kernels/route.cuh"

namespace llminfer::cuda {
namespace {

constexpr int threads = 256, warps = threads / 32;

__device__ inline float dot(const float4& w, const float4& x, float sum) {
  sum = fmaf(w.x, x.x, sum);
  sum = fmaf(w.y, x.y, sum);
  sum = fmaf(w.z, x.z, sum);
  return fmaf(w.w, x.w, sum);
}

/// Sums of N values over the lanes of a warp. Lane l has those of values N / 32 l and following in v; with N < 32,
/// 32 / N lanes each have one.
template <int N, int Distance = 16>
__device__ void sum_lanes(float* v, unsigned lane) {
  if constexpr (N > 1) {
    const bool upper = (lane & Distance) != 0;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const float mine = upper ? v[i + N / 2] : v[i], other = upper ? v[i] : v[i + N / 2];
      v[i] = mine + __shfl_xor_sync(0xffffffffU, other, Distance);
    }
  } else {
    v[0] += __shfl_xor_sync(0xffffffffU, v[0], Distance);
  }
  if constexpr (Distance > 1) sum_lanes<(N > 1 ? N / 2 : 1), Distance / 2>(v, lane);
}

constexpr int split_weights = 4;  // rows of weights that a block of split takes

template <int Values>
union SplitRoom {
  float sums[warps][Values];
  struct {
    float logits[warps][route_experts_near];
    int next[most_experts_sorted];
  } route;
};

/// Blocks of a multiprocessor that the compiler has to leave registers for. Where none are named, that of compute
/// capability 10.0 chooses so many that some spill.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 1000
constexpr int split_blocks = 1;
#else
constexpr int split_blocks = 0;  // none are named
#endif

template <int Rows>
__global__ void __launch_bounds__(threads, split_blocks) product_f32_split_kernel(MatMulF32Params p) {
  constexpr int values = split_weights * Rows, held = values < 32 ? 1 : values / 32;
  __shared__ SplitRoom<values> room;
  auto& sums = room.sums;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first = static_cast<int>(blockIdx.x) * split_weights;
  const float* weights[split_weights];
#pragma unroll
  for (int j = 0; j < split_weights; ++j) {
    weights[j] = p.weight + static_cast<std::int64_t>(min(first + j, p.columns_out - 1)) * p.columns_in;
  }
  float sum[values] = {};  // [Rows][split_weights]
#pragma unroll(Rows == 1 ? 4 : 1)
  for (int k = static_cast<int>(threadIdx.x) * 4; k < p.columns_in; k += 4 * threads) {
    float4 w[split_weights];
#pragma unroll
    for (int j = 0; j < split_weights; ++j) w[j] = __ldg(reinterpret_cast<const float4*>(weights[j] + k));
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      if (r >= p.rows) continue;
      const float4 x = *reinterpret_cast<const float4*>(p.in + static_cast<std::int64_t>(r) * p.columns_in + k);
#pragma unroll
      for (int j = 0; j < split_weights; ++j) {
        sum[r * split_weights + j] = dot(w[j], x, sum[r * split_weights + j]);
      }
    }
  }
  sum_lanes<values>(sum, lane);
  constexpr unsigned lanes_each = values < 32 ? 32 / values : 1;
  if (lane % lanes_each == 0) {
#pragma unroll
    for (int i = 0; i < held; ++i) sums[warp][lane / lanes_each * held + static_cast<unsigned>(i)] = sum[i];
  }
  __syncthreads();
  const int r = static_cast<int>(threadIdx.x) / split_weights;
  const int j = first + static_cast<int>(threadIdx.x) % split_weights;
  if (threadIdx.x < values && r < p.rows && j < p.columns_out) {
    float all = 0;
#pragma unroll
    for (int w = 0; w < warps; ++w) all += sums[w][threadIdx.x];
    p.out[static_cast<std::int64_t>(r) * p.columns_out + j] = all + (p.bias != nullptr ? p.bias[j] : 0.0F);
  }
  if (p.route.in == nullptr || !arrives_last(p.arrivals, gridDim.x)) return;
#pragma unroll 1
  for (int row = static_cast<int>(warp); row < p.route.rows; row += warps) {
    route_row(p.route, row, static_cast<int>(lane), room.route.logits[warp]);
    __syncwarp();
  }
  __syncthreads();
  if (p.route.sorted.tiles != nullptr && warp == 0) {
    sort_by_expert(p.route, static_cast<int>(lane), room.route.next);
  }
}

/// Shape of a block's work, and how far ahead it copies.
template <int TN, int TM, int Depth, int Stages>
struct Tile {
  static constexpr int weights = 32 * TN, rows = 8 * TM, pitch = Depth + 4;
  static constexpr int floats = (weights + rows) * pitch;  // of a stage
  static constexpr int each = Depth / 4;                   // copies of a row
  static_assert(4 * floats * Stages <= 48 * 1024, "static shared memory");
  static_assert(pitch % 32 == 4 || pitch % 32 == 20, "eight rows lie in different banks");
};

/// Columns k .. k + Depth - 1 of a block's rows; those behind the end are zero. Rows behind the last are the last.
template <class T, int Depth>
__device__ void copy_stage(const MatMulF32Params& p, int first_weight, int first_row, int k, float* stage) {
  for (int i = static_cast<int>(threadIdx.x); i < (T::weights + T::rows) * T::each; i += threads) {
    const int line = i / T::each, column = i % T::each * 4;
    const bool weight = line < T::weights;
    const int at =
        weight ? min(first_weight + line, p.columns_out - 1) : min(first_row + line - T::weights, p.rows - 1);
    float* to = stage + line * T::pitch + column;
    if (k + column < p.columns_in) {
      copy_async_16(to, (weight ? p.weight : p.in) + static_cast<std::int64_t>(at) * p.columns_in + k + column);
    } else {
      *reinterpret_cast<float4*>(to) = make_float4(0, 0, 0, 0);
    }
  }
}

template <int TN, int TM, int Depth, int Stages>
__global__ void __launch_bounds__(threads) product_f32_tile_kernel(MatMulF32Params p) {
  using T = Tile<TN, TM, Depth, Stages>;
  __shared__ __align__(16) float stages[Stages][T::floats];
  const int first_weight = static_cast<int>(blockIdx.x) * T::weights,
            first_row = static_cast<int>(blockIdx.y) * T::rows;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int n = static_cast<int>(lane % 8 + 8 * (warp % 4)), m = static_cast<int>(lane / 8 + 4 * (warp / 4));
  for (int s = 0; s + 1 < Stages; ++s) {
    if (s * Depth < p.columns_in) copy_stage<T, Depth>(p, first_weight, first_row, s * Depth, stages[s]);
    commit_copies();
  }
  float sum[TN][TM] = {};
  int now = 0, next = Stages - 1;
  for (int k = 0; k < p.columns_in; k += Depth) {
    wait_for_copies<Stages - 2>();
    __syncthreads();
    const int ahead = k + (Stages - 1) * Depth;
    if (ahead < p.columns_in) copy_stage<T, Depth>(p, first_weight, first_row, ahead, stages[next]);
    commit_copies();
    const float* weights = stages[now] + n * T::pitch;
    const float* rows = stages[now] + (T::weights + m) * T::pitch;
#pragma unroll
    for (int c = 0; c < Depth; c += 4) {
      float4 x[TM];
#pragma unroll
      for (int j = 0; j < TM; ++j) x[j] = *reinterpret_cast<const float4*>(rows + 8 * j * T::pitch + c);
#pragma unroll
      for (int i = 0; i < TN; ++i) {
        const float4 w = *reinterpret_cast<const float4*>(weights + 32 * i * T::pitch + c);
#pragma unroll
        for (int j = 0; j < TM; ++j) sum[i][j] = dot(w, x[j], sum[i][j]);
      }
    }
    now = now + 1 == Stages ? 0 : now + 1;
    next = next + 1 == Stages ? 0 : next + 1;
  }
#pragma unroll
  for (int i = 0; i < TN; ++i) {
    const int j = first_weight + n + 32 * i;
    if (j >= p.columns_out) continue;
    const float bias = p.bias != nullptr ? p.bias[j] : 0.0F;
#pragma unroll
    for (int t = 0; t < TM; ++t) {
      const int r = first_row + m + 8 * t;
      if (r < p.rows) p.out[static_cast<std::int64_t>(r) * p.columns_out + j] = sum[i][t] + bias;
    }
  }
}

template <int TN, int TM, int Depth, int Stages>
void launch_tile(const MatMulF32Params& p, cudaStream_t stream) {
  const dim3 grid(blocks_for(p.columns_out, 32 * TN), blocks_for(p.rows, 8 * TM));
  product_f32_tile_kernel<TN, TM, Depth, Stages><<<grid, threads, 0, stream>>>(p);
}

template <int Rows>
void launch_split(const MatMulF32Params& p, cudaStream_t stream) {
  product_f32_split_kernel<Rows><<<blocks_for(p.columns_out, split_weights), threads, 0, stream>>>(p);
}

void launch_few(const MatMulF32Params& p, cudaStream_t stream) {
  // Tiles have less on the way: they want two blocks on each multiprocessor.
  const bool tiles =
      p.route.in == nullptr && blocks_for(p.columns_out, 64) >= 2U * static_cast<unsigned>(p.multiprocessors);
  if (p.rows == 1) {
    launch_split<1>(p, stream);
  } else if (tiles) {
    p.rows <= 8 ? launch_tile<2, 1, 32, 4>(p, stream) : launch_tile<2, 2, 32, 4>(p, stream);
  } else if (p.rows <= 4) {
    launch_split<4>(p, stream);
  } else {
    p.rows <= 8 ? launch_split<8>(p, stream) : launch_split<16>(p, stream);
  }
}

__global__ void __launch_bounds__(threads) bias_rows_kernel(BiasRowsParams p) {
  const int j = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  if (j >= p.width) return;
  const float bias = p.bias[j];
  for (int r = static_cast<int>(blockIdx.y); r < p.rows; r += static_cast<int>(gridDim.y)) {
    p.out[static_cast<std::int64_t>(r) * p.width + j] = bias;
  }
}

}  // namespace

cudaError_t launch(const MatMulF32Params& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (!matmul_f32_takes(p.columns_in) || blocks_for(p.rows, 32) > 65535) return cudaErrorInvalidValue;
  const bool routes = p.rows <= matmul_f32_few && p.arrivals != nullptr && p.route.experts <= most_experts_sorted;
  if (p.route.in != nullptr && !routes) return cudaErrorInvalidValue;
  if (p.rows <= matmul_f32_few) {
    launch_few(p, stream);
  } else if (2 * std::int64_t{blocks_for(p.columns_out, 128)} * blocks_for(p.rows, 64) >= p.multiprocessors) {
    launch_tile<4, 8, 16, 3>(p, stream);
  } else {
    launch_tile<1, 4, 16, 3>(p, stream);
  }
  return cudaGetLastError();
}

cudaError_t launch(const BiasRowsParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  const unsigned rows = p.rows < 64 ? static_cast<unsigned>(p.rows) : 64U;
  bias_rows_kernel<<<dim3(blocks_for(p.width, threads), rows), threads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
