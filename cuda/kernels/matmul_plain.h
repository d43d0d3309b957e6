// Products with weights in the bytes of the file: for float weights, for shapes that no other kernel takes, and as the
// second oracle of the quantized kernels.
#pragma once

#include <llminfer/weight_type.hpp>

#include "kernels/launch.h"

namespace llminfer::cuda {

/// out[r][j] = sum_k in[r][k] * weight[j][k] + bias[j]. With a route, r stands for (token, slot), token = r / used:
/// the weight and bias are those of the expert that the route names there.
struct MatMulPlainParams {
  const std::uint8_t* weight = nullptr;  ///< [experts x columns_out] rows of row_bytes
  const float* bias = nullptr;           ///< [columns_out], with a route [experts x columns_out], or null
  const float* in = nullptr;             ///< [rows x columns_in]; with in_per_token: [rows / used x columns_in]
  const float* route = nullptr;          ///< [tokens x 2 used] or null
  float* out = nullptr;                  ///< [rows x columns_out]
  std::int64_t row_bytes = 0;
  std::int32_t rows = 0;
  std::int32_t columns_in = 0;
  std::int32_t columns_out = 0;
  std::int32_t used = 1;
  bool in_per_token = false;
  WeightType type = WeightType::f32;
};

cudaError_t launch(const MatMulPlainParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
