// The formats of attention_mma, each compiled in a file of its own.
#pragma once

#include "kernels/attention_mma.h"

namespace llminfer::cuda {

/// Heads of any width that attention_mma_takes.
template <KvType Type>
void launch_split_of(const AttentionParams& params, const AttentionRoom& room, cudaStream_t stream);
extern template void launch_split_of<KvType::f16>(const AttentionParams&, const AttentionRoom&, cudaStream_t);
extern template void launch_split_of<KvType::bf16>(const AttentionParams&, const AttentionRoom&, cudaStream_t);
extern template void launch_split_of<KvType::q8_0>(const AttentionParams&, const AttentionRoom&, cudaStream_t);
extern template void launch_split_of<KvType::q4_0>(const AttentionParams&, const AttentionRoom&, cudaStream_t);

}  // namespace llminfer::cuda
