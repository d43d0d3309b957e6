// Products of up to eight rows of activations with weights of two types in one launch, as queries, keys and values want
// them: files of mixed types give values more bits.
#pragma once

#include "kernels/matmul_quant.h"

namespace llminfer::cuda {

/// Whether there is a kernel for the two types, in this order.
bool matmul_mixes(WeightType first, WeightType second);

/// Both read the same fragments; nothing is done with results but what their targets say, and neither has experts. Rows
/// are at most 8.
cudaError_t launch_mixed(const MatMulQuantParams& first, const MatMulQuantParams& second, cudaStream_t stream);

}  // namespace llminfer::cuda
