// Products with weights in blocks of 256 (Q4_K, Q5_K, Q6_K, IQ4_XS), as
// host/repack_super.h lays them out.
#pragma once

#include "kernels/matmul_quant.h"

namespace llminfer::cuda {

inline bool has_super_blocks(WeightType type) {
  return type == WeightType::q4_k || type == WeightType::q5_k || type == WeightType::q6_k || type == WeightType::iq4_xs;
}

/// As launch(MatMulQuantParams), which calls this one. Columns are a multiple
/// of 256.
cudaError_t launch_matmul_super(const MatMulQuantParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
