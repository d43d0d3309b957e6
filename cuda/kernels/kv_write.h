// Stores one side (keys or values) of the step's tokens at their places in the cache.
#pragma once

#include "kernels/kv_layout.h"
#include "kernels/launch.h"

namespace llminfer::cuda {

struct KvWriteParams {
  const float* in = nullptr;  ///< [tokens x heads * side.width]
  KvSide side{};
  KvStep step{};
  std::int32_t tokens = 0;
  std::int32_t heads = 0;
};

cudaError_t launch(const KvWriteParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
