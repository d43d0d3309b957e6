// How many ranges, and which kernel; those of f16 caches.
#include "kernels/attention_mma.h"

#include <algorithm>
#include <limits>

#include "kernels/attention_mma.cuh"

namespace llminfer::cuda {

template void launch_split_of<KvType::f16>(const AttentionParams& p, const AttentionRoom& room, cudaStream_t stream);

/// Enough ranges for the GPU to have work, few enough for one block to merge.
std::int32_t attention_ranges(std::int32_t tokens, std::int32_t head_blocks, std::int32_t longest) {
  constexpr std::int32_t least = attention_least_keys;
  const std::int64_t heads = std::max<std::int64_t>(1, std::int64_t{tokens} * head_blocks);
  const auto most = static_cast<std::int32_t>(attention_max_partials / heads);
  return std::max(1, std::min(most, (longest + least - 1) / least));
}

cudaError_t launch_attention_mma(const AttentionParams& p, const AttentionRoom& room, cudaStream_t stream) {
  if (p.tokens == 0) return cudaSuccess;
  if (p.kv_heads == 0 || !attention_mma_takes(p.k.type, p.v.type, p.k.width, p.v.width, p.heads / p.kv_heads)) {
    return cudaErrorInvalidValue;
  }
  if (std::max(p.k.page_bytes, p.v.page_bytes) > std::numeric_limits<std::uint32_t>::max()) {
    return cudaErrorInvalidValue;
  }
  switch (p.k.type) {
    case KvType::f16:
      launch_split_of<KvType::f16>(p, room, stream);
      break;
    case KvType::bf16:
      launch_split_of<KvType::bf16>(p, room, stream);
      break;
    case KvType::q8_0:
      launch_split_of<KvType::q8_0>(p, room, stream);
      break;
    default:
      launch_split_of<KvType::q4_0>(p, room, stream);
  }
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
