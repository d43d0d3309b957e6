// rms_norm and layer_norm, in groups of `group` values, and rms_norm with the addition behind it.
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

/// out = residual + in / sqrt(mean(in^2) + eps) * weight, of whole rows: the bits of the norm and of an addition.
struct NormAddParams {
  const float* in = nullptr;        ///< [rows x columns]
  const float* weight = nullptr;    ///< [columns]
  const float* residual = nullptr;  ///< [rows x columns]
  float* out = nullptr;             ///< [rows x columns], may be residual
  std::int32_t rows = 0;
  std::int32_t columns = 0;  ///< a multiple of 4
  float eps = 0;
};

cudaError_t launch(const NormParams& params, cudaStream_t stream);
cudaError_t launch(const NormAddParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
