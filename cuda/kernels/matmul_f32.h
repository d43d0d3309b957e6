// Products with weights of 32 bits on ordinary cores, for rows of a multiple of 4 columns: others take matmul_plain.
// The choice of experts by the way.
#pragma once

#include "kernels/experts.h"
#include "kernels/launch.h"

namespace llminfer::cuda {

/// out[r][j] = sum_k in[r][k] * weight[j][k] + bias[j]. Matrices begin at multiples of 16 bytes.
struct MatMulF32Params {
  const float* weight = nullptr;  ///< [columns_out x columns_in]
  const float* bias = nullptr;    ///< [columns_out] or null
  const float* in = nullptr;      ///< [rows x columns_in]
  float* out = nullptr;           ///< [rows x columns_out]
  std::int32_t rows = 0;
  std::int32_t columns_in = 0;
  std::int32_t columns_out = 0;
  std::int32_t multiprocessors =
      0;                         ///< of the GPU: where large tiles would leave some of them idle, smaller ones do it
  RouteParams route{};           ///< of `out`, of at most matmul_f32_few rows, by the last block; in null: none
  unsigned* arrivals = nullptr;  ///< [1] for that, zero before and after
};

/// More rows than this are many: the GPU's arithmetic is what they take, not its memory.
constexpr std::int32_t matmul_f32_few = 16;

constexpr bool matmul_f32_takes(std::int32_t columns_in) { return columns_in % 4 == 0; }

cudaError_t launch(const MatMulF32Params& params, cudaStream_t stream);

/// out[r][j] = bias[j]
struct BiasRowsParams {
  const float* bias = nullptr;  ///< [width]
  float* out = nullptr;         ///< [rows x width]
  std::int32_t rows = 0;
  std::int32_t width = 0;
};

cudaError_t launch(const BiasRowsParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
