// Which kernel a product takes.
#pragma once

#include "kernels/matmul_batch.cuh"
#include "kernels/matmul_decode.cuh"
#include "kernels/matmul_prompt.cuh"

namespace llminfer::cuda {

template <class Format>
cudaError_t launch_matmul(const MatMulQuantParams& p, cudaStream_t stream) {
  if (p.tiles == nullptr ? p.rows > 16 : p.runs != nullptr) return launch_prompt<Format>(p, stream);
  if (p.tiles == nullptr && p.rows > 8) return launch_batch<Format>(p, stream);
  return launch_decode<Format>(p, stream);
}

}  // namespace llminfer::cuda
