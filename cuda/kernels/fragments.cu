// One block a tile of 8 rows. Limits: columns a multiple of 32. Speed not yet measured.
#include "kernels/fragments.cuh"

namespace llminfer::cuda {
namespace {

constexpr int warps = 8;

__global__ void __launch_bounds__(32 * warps) fragments_kernel(FragmentsParams p) {
  __shared__ FragmentsRoom room;
  make_fragments<warps>(p, static_cast<int>(blockIdx.x), room);
}

}  // namespace

cudaError_t launch(const FragmentsParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.columns % 32 != 0) return cudaErrorInvalidValue;
  fragments_kernel<<<blocks_for(p.rows, 8), 32 * warps, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
