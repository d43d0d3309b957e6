// Attention for every shape and format: one warp a query head. The second oracle of the faster kernels.
#pragma once

#include "kernels/attention.h"

namespace llminfer::cuda {

/// Widest head that it takes.
constexpr std::int32_t attention_plain_max_width = 512;

cudaError_t launch_attention_plain(const AttentionParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
