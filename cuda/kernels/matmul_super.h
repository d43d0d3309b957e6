// Products with weights in blocks of 256 columns.
#pragma once

#include "kernels/matmul_quant.h"

namespace llminfer::cuda {

/// As launch(MatMulQuantParams), which calls this one for Q2_K to Q6_K and IQ4_XS.
cudaError_t launch_matmul_super(const MatMulQuantParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
