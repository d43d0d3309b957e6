// The best tokens of rows of logits.
#pragma once

#include "kernels/launch.h"

namespace llminfer::cuda {

/// Of each row the k largest logits, falling, lower ids first on ties; what llminfer::device::reduce_row computes. NaN
/// and tokens that are not allowed count as -infinity. Where a row has less than k logits, the rest has id 0 and score
/// -infinity.
struct ReduceParams {
  const float* logits = nullptr;           ///< [rows x width]
  const std::uint32_t* allowed = nullptr;  ///< [rows x ceil(width / 32)] bits, or null: all are
  std::int32_t* ids = nullptr;             ///< [rows x k]
  float* scores = nullptr;                 ///< [rows x k]
  float* log_sum_exp = nullptr;            ///< [rows], over the allowed tokens; or null
  std::int32_t rows = 0;
  std::int32_t width = 0;
  std::int32_t k = 1;  ///< 1 to reduce_max_k
};

constexpr std::int32_t reduce_max_k = 256;

cudaError_t launch(const ReduceParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
