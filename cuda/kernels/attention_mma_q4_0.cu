#include "kernels/attention_mma.cuh"

namespace llminfer::cuda {

template void launch_split_of<KvType::q4_0>(const AttentionParams& p, const AttentionRoom& room, cudaStream_t stream);

}  // namespace llminfer::cuda
