// Which kernel a prompt's attention takes; those of f16 caches.
#include "kernels/attention_tiled.h"

#include "kernels/attention_tiled.cuh"

namespace llminfer::cuda {

template cudaError_t launch_tiled_of<KvType::f16>(const AttentionParams& p, const AttentionTiles& tiles,
                                                  cudaStream_t stream);

cudaError_t launch_attention_tiled(const AttentionParams& p, const AttentionTiles& tiles, cudaStream_t stream) {
  if (tiles.count == 0) return cudaSuccess;
  const bool taken =
      p.kv_heads > 0 && attention_tiled_takes(p.k.type, p.v.type, p.k.width, p.v.width, p.heads / p.kv_heads);
  if (!taken || p.kv_heads > 65535 || p.step.firsts == nullptr) return cudaErrorInvalidValue;
  switch (p.k.type) {
    case KvType::f16:
      return launch_tiled_of<KvType::f16>(p, tiles, stream);
    case KvType::bf16:
      return launch_tiled_of<KvType::bf16>(p, tiles, stream);
    case KvType::q8_0:
      return launch_tiled_of<KvType::q8_0>(p, tiles, stream);
    default:
      return launch_tiled_of<KvType::q4_0>(p, tiles, stream);
  }
}

}  // namespace llminfer::cuda
