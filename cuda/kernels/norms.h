// rms_norm and layer_norm, in groups of `group` values.
#pragma once

#include "kernels/launch.h"

namespace llminfer::cuda {

/// out = in / sqrt(mean(in^2) + eps) * weight; with `centred`: (in - mean) / sqrt(variance + eps) * weight + bias
struct NormParams {
  const float* in = nullptr;      ///< [groups x group]
  const float* weight = nullptr;  ///< [group]
  const float* bias = nullptr;    ///< [group] or null
  float* out = nullptr;           ///< [groups x group]
  std::int64_t groups = 0;
  std::int32_t group = 0;
  float eps = 0;
  bool centred = false;
};

cudaError_t launch(const NormParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
