// The formats of attention_tiled, each compiled in a file of its own.
#pragma once

#include "kernels/attention_tiled.h"

namespace llminfer::cuda {

/// Heads of any width that attention_tiled_takes.
template <KvType Type>
cudaError_t launch_tiled_of(const AttentionParams& params, const AttentionTiles& tiles, cudaStream_t stream);
extern template cudaError_t launch_tiled_of<KvType::f16>(const AttentionParams&, const AttentionTiles&, cudaStream_t);
extern template cudaError_t launch_tiled_of<KvType::bf16>(const AttentionParams&, const AttentionTiles&, cudaStream_t);
extern template cudaError_t launch_tiled_of<KvType::q8_0>(const AttentionParams&, const AttentionTiles&, cudaStream_t);
extern template cudaError_t launch_tiled_of<KvType::q4_0>(const AttentionParams&, const AttentionTiles&, cudaStream_t);

}  // namespace llminfer::cuda
