// Stores keys and values of the step's tokens at their places in the cache.
#pragma once

#include "kernels/kv_layout.h"
#include "kernels/launch.h"

namespace llminfer::cuda {

/// One side, or both of one type: block z stores sides[z].
struct KvWriteParams {
  const float* in[2] = {};  ///< [tokens x heads * side.width]
  KvSide sides[2] = {};
  std::int32_t count = 1;  ///< of sides
  KvStep step{};
  std::int32_t tokens = 0;
  std::int32_t heads = 0;
};

cudaError_t launch(const KvWriteParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
