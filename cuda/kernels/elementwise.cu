// One thread a value. 8 or 12 bytes a value: bound by memory.
#include "kernels/elementwise.cuh"

namespace llminfer::cuda {
namespace {

constexpr int threads = 128;

__global__ void __launch_bounds__(threads) elementwise_kernel(ElementwiseParams p) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= p.count) return;
  p.out[i] = apply(p, p.a[i], p.b != nullptr ? p.b[i] : 0.0F);
}

__global__ void __launch_bounds__(threads) copy_columns_kernel(CopyColumnsParams p) {
  const int i = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  if (i >= p.width) return;
  const std::int64_t row = p.rows_wanted != nullptr ? p.rows_wanted[blockIdx.y] : static_cast<int>(blockIdx.y);
  p.out[static_cast<std::int64_t>(blockIdx.y) * p.width + i] = p.in[row * p.in_width + p.offset + i];
}

}  // namespace

cudaError_t launch(const ElementwiseParams& p, cudaStream_t stream) {
  if (p.count == 0) return cudaSuccess;
  if (p.count > std::int64_t{0x7fffffff} * threads) return cudaErrorInvalidValue;
  elementwise_kernel<<<blocks_for(p.count, threads), threads, 0, stream>>>(p);
  return cudaGetLastError();
}

cudaError_t launch(const CopyColumnsParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.rows > 65535) return cudaErrorInvalidValue;
  const dim3 grid(blocks_for(p.width, threads), static_cast<unsigned>(p.rows));
  copy_columns_kernel<<<grid, threads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
