// Blocks that share the columns of the same rows of weights (gridDim.z of them), as a cluster: from compute capability
// 9.0 on they read each other's sums from shared memory.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/matmul_quant.h"

namespace llminfer::cuda {

/// How to launch blocks that share columns.
struct Sharing {
  unsigned splits = 1;   ///< gridDim.z
  bool cluster = false;  ///< those of one (x, y) are one
};

/// See splits_of, where the others are. In clusters sums are no traffic beside the weights.
inline Sharing sharing_of(const MatMulQuantParams& p, unsigned blocks, int block_rows, int most, unsigned each = 1) {
  if (p.most_of_cluster <= 1 || p.partials == nullptr) return {splits_of(p, blocks, most, each, block_rows), false};
  const unsigned wanted = blocks_wanted(each);
  const auto limit = static_cast<unsigned>(std::min({most, p.most_of_cluster, most_of_any_cluster}));
  unsigned n = 1;
  while (2 * n <= limit && 2 * n * blocks <= wanted) n *= 2;
  return {n, n > 1};
}

/// `grid.z`: of `sharing`.
template <class... Wanted, class... Given>
cudaError_t launch_sharing(void (*kernel)(Wanted...), const Sharing& sharing, dim3 grid, int threads, int shared,
                           cudaStream_t stream, const Given&... params) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = 1;
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = sharing.splits;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid.x, grid.y, sharing.splits);
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shared);
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = sharing.cluster ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, params...);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr bool has_clusters = true;

__device__ inline unsigned cluster_blocks() {
  unsigned n;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  return n;
}
__device__ inline unsigned cluster_rank() {
  unsigned n;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(n));
  return n;
}

/// All threads of all blocks of the cluster meet, and know what the others wrote to shared and global memory.
__device__ inline void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

/// What block `rank` has where this one has `*mine`; zero where the cluster has no such block.
__device__ inline float of_block(const float* mine, unsigned rank) {
  const auto here = static_cast<unsigned>(__cvta_generic_to_shared(mine));
  float v;
  asm volatile(
      "{\n\t"
      ".reg .pred there;\n\t"
      ".reg .b32 at;\n\t"
      "mov.f32 %0, 0f00000000;\n\t"
      "setp.lt.u32 there, %2, %3;\n\t"
      "@there mapa.shared::cluster.u32 at, %1, %2;\n\t"
      "@there ld.shared::cluster.f32 %0, [at];\n\t"
      "}"
      : "=&f"(v)
      : "r"(here), "r"(rank), "r"(cluster_blocks())
      : "memory");
  return v;
}
#else
constexpr bool has_clusters = false;

__device__ inline unsigned cluster_blocks() { return 1; }
__device__ inline unsigned cluster_rank() { return 0; }
__device__ inline void cluster_barrier() {}
__device__ inline float of_block(const float* mine, unsigned) { return *mine; }
#endif

/// Whether the blocks that share columns are a cluster, one behind the other in the order of their ranks.
__device__ inline bool shares_in_cluster() { return has_clusters && cluster_blocks() > 1; }

/// The sum of what the blocks of the cluster have at `mine`, in the order of their ranks: all are asked at once.
__device__ inline float sum_of_blocks(const float* mine) {
  float v[most_of_any_cluster];
#pragma unroll
  for (int z = 0; z < most_of_any_cluster; ++z) v[z] = of_block(mine, static_cast<unsigned>(z));
  float sum = 0;
#pragma unroll
  for (int z = 0; z < most_of_any_cluster; ++z) sum += v[z];  // a zero changes nothing
  return sum;
}

}  // namespace llminfer::cuda
