#include "kernels/attention_tiled.cuh"

namespace llminfer::cuda {

template cudaError_t launch_tiled_of<KvType::q8_0>(const AttentionParams& p, const AttentionTiles& tiles,
                                                   cudaStream_t stream);

}  // namespace llminfer::cuda
