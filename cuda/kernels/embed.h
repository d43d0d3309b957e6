// out[t] = weight[token t] * scale
#pragma once

#include <llminfer/weight_type.hpp>

#include "kernels/launch.h"

namespace llminfer::cuda {

struct EmbedParams {
  const std::uint8_t* weight = nullptr;  ///< [vocabulary] rows of row_bytes, as in the file
  const std::int32_t* tokens = nullptr;  ///< [rows]
  float* out = nullptr;                  ///< [rows x width]
  std::int64_t row_bytes = 0;
  std::int32_t rows = 0;
  std::int32_t width = 0;
  float scale = 1;
  WeightType type = WeightType::f32;
};

cudaError_t launch(const EmbedParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
