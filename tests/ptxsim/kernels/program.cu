// An ordinary CUDA program, compiled by nvcc and linked with the stand-in: memory, a launch, a stream, a graph, errors.
#include <cuda_runtime_api.h>

#include "kernels/program.h"

namespace {

__global__ void scale(float* y, const float* x, float a, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = a * x[i];
}

__global__ void add_dynamic(float* y, int n) {
  extern __shared__ float s[];
  const int t = static_cast<int>(threadIdx.x);
  s[t] = y[t];
  __syncthreads();
  y[t] = s[t] + s[n - 1 - t];
}

__global__ void out_of_bounds(float* y) { y[threadIdx.x + 1000000] = 1; }

/// Twice what the launch ahead of it wrote.
__global__ void twice(float* y, int n, bool waits) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (waits) asm volatile("griddepcontrol.wait;" ::: "memory");
  if (i < n) y[i] = 2 * y[i];
}

/// Blocks of a cluster of two give each other what they have.
__global__ void exchange(float* y) {
#if __CUDA_ARCH__ >= 900
  __shared__ float s[32];
  s[threadIdx.x] = y[32 * blockIdx.x + threadIdx.x];
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
  unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(s + threadIdx.x));
  asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(at) : "r"(1 - blockIdx.x % 2));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(y[32 * blockIdx.x + threadIdx.x]) : "r"(at) : "memory");
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
#else
  y[32 * blockIdx.x + threadIdx.x] = -1;
#endif
}

}  // namespace

cudaError_t launch_exchange(float* y, int blocks, int cluster, cudaStream_t stream) {
  cudaLaunchAttribute of{};
  of.id = cudaLaunchAttributeClusterDimension;
  of.val.clusterDim.x = static_cast<unsigned>(cluster);
  of.val.clusterDim.y = of.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(32);
  config.stream = stream;
  config.attrs = &of;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, exchange, y);
}

cudaError_t launch_twice_early(float* y, int n, bool waits, cudaStream_t stream) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3((n + 127) / 128);
  config.blockDim = dim3(128);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, twice, y, n, waits);
}

cudaError_t launch_scale(float* y, const float* x, float a, int n, cudaStream_t stream) {
  scale<<<(n + 127) / 128, 128, 0, stream>>>(y, x, a, n);
  return cudaGetLastError();
}

cudaError_t launch_add_dynamic(float* y, int n, int bytes, cudaStream_t stream) {
  const cudaError_t e = cudaFuncSetAttribute(add_dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (e != cudaSuccess) return e;
  add_dynamic<<<1, n, bytes, stream>>>(y, n);
  return cudaGetLastError();
}

cudaError_t launch_out_of_bounds(float* y, cudaStream_t stream) {
  out_of_bounds<<<1, 32, 0, stream>>>(y);
  return cudaGetLastError();
}
