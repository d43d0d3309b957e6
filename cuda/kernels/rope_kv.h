// Norms and rotation of queries and keys, and storing of keys and values, in one launch.
#pragma once

#include "kernels/kv_write.h"
#include "kernels/rope.h"

namespace llminfer::cuda {

/// What two launches of norms, two of rope and one or two of kv_write do, with the same bits, but that normed and
/// rotated keys stand in the cache alone. cache.in[0] are the keys before all that, cache.count does not matter; keys'
/// heads are as wide as the queries', at most rope_kv_max_width.
struct RopeKvParams {
  RopeParams queries{};
  KvWriteParams cache{};
  const float* query_norm = nullptr;  ///< [head_width], of a norm of each head, see norms.h; or null: none
  const float* key_norm = nullptr;    ///< the same of keys
  float eps = 0;
};

constexpr std::int32_t rope_kv_max_width = 256;

cudaError_t launch(const RopeKvParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
