// Choosing experts, and adding up what they give. Their products: matmul_plain.h.
#pragma once

#include "kernels/launch.h"

namespace llminfer::cuda {

enum class RouteGating : std::int32_t { softmax, sigmoid, softmax_selected };

/// For each row the best `used` of `experts` scores, lower ids first on ties: out holds `used` ids, then their weights.
/// With `bias` the choice is by score + bias, the weight by score alone.
struct RouteParams {
  const float* in = nullptr;    ///< [rows x experts]
  const float* bias = nullptr;  ///< [experts] or null
  float* out = nullptr;         ///< [rows x 2 used]
  std::int32_t rows = 0;
  std::int32_t experts = 0;
  std::int32_t used = 0;
  RouteGating gating = RouteGating::softmax;
  bool normalize = false;  ///< divide the weights by their sum
  float scale = 1;         ///< then multiply them
};

/// out[r][i] = sum_s weight[r][s] * in[r][s][i]
struct CombineParams {
  const float* in = nullptr;     ///< [rows x used x width]
  const float* route = nullptr;  ///< [rows x 2 used]
  float* out = nullptr;          ///< [rows x width]
  std::int32_t rows = 0;
  std::int32_t used = 0;
  std::int32_t width = 0;
};

cudaError_t launch(const RouteParams& params, cudaStream_t stream);
cudaError_t launch(const CombineParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
