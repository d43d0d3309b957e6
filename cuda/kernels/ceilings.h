// Nothing but memory traffic, nothing but tensor instructions: what the GPU could do at best.
#pragma once

#include "kernels/launch.h"

namespace llminfer::cuda {

/// Reads `count` pieces of 16 bytes, and writes them to `out` if it is not null. The contents must be zero.
struct StreamParams {
  const void* in = nullptr;
  void* out = nullptr;
  void* sink = nullptr;  ///< 16 bytes, never written where the contents are zero
  std::int64_t count = 0;
  std::int32_t blocks = 0;
};

/// `blocks` of 8 warps do `rounds` times 8 products m16n8k16 of bf16 each.
struct TensorParams {
  float* out = nullptr;  ///< [blocks x 256]
  std::int32_t blocks = 0;
  std::int32_t rounds = 0;
};

/// Operations of a launch; a multiply-add is two.
inline double tensor_operations(const TensorParams& p) { return 8.0 * 8.0 * 4096.0 * p.blocks * p.rounds; }

cudaError_t launch(const StreamParams& params, cudaStream_t stream);
cudaError_t launch(const TensorParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
