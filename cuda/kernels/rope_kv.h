// Rotation of queries and keys, and storing of keys and values, in one launch.
#pragma once

#include "kernels/kv_write.h"
#include "kernels/rope.h"

namespace llminfer::cuda {

/// What two launches of rope and one of kv_write do, but that rotated keys stand in the cache alone. cache.in[0] are
/// the keys before the rotation, cache.count is 2; keys' heads are as wide as the queries', at most rope_kv_max_width.
struct RopeKvParams {
  RopeParams queries{};
  KvWriteParams cache{};
};

constexpr std::int32_t rope_kv_max_width = 256;

cudaError_t launch(const RopeKvParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
