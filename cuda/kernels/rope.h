// Rotary position embedding.
#pragma once

#include "kernels/launch.h"

namespace llminfer::cuda {

/// Rotates the first 2 * pairs values of each of `heads` heads of `head_width` values, the rest is copied: pair i turns
/// by position * inverse_frequency[i]. in and out are [rows x heads * head_width] and may be the same.
struct RopeParams {
  const float* in = nullptr;
  float* out = nullptr;
  const std::int32_t* positions = nullptr;   ///< [rows]
  const float* inverse_frequency = nullptr;  ///< [pairs]
  std::int32_t rows = 0;
  std::int32_t heads = 0;
  std::int32_t head_width = 0;
  std::int32_t pairs = 0;
  float magnitude = 1;
  bool adjacent = false;  ///< pair i is (2i, 2i + 1), else (i, i + pairs)
};

cudaError_t launch(const RopeParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
