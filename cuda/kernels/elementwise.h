// Ops that take each value by itself, and copies.
#pragma once

#include "kernels/launch.h"

namespace llminfer::cuda {

enum class Elementwise : std::int32_t {
  add,          ///< a + b
  scale,        ///< a * x
  softcap,      ///< x * tanh(a / x)
  silu,         ///< a * sigmoid(a) * b
  gelu_tanh,    ///< 0.5 a (1 + tanh(sqrt(2/pi) (a + 0.044715 a^3))) * b
  swiglu_clip,  ///< a' = min(a, y), b' = clamp(b, -y, y): a' sigmoid(x a') (b' + 1)
};

/// A kind with its numbers.
struct Gate {
  Elementwise kind = Elementwise::add;
  float x = 0, y = 0;  ///< see Elementwise
};

struct ElementwiseParams {
  const float* a = nullptr;  ///< [count]
  const float* b = nullptr;  ///< [count] or null
  float* out = nullptr;      ///< [count]
  std::int64_t count = 0;
  Gate gate{};
};

/// out[r][i] = in[row r][offset + i], where row r is r itself or, given `rows_wanted`, its entry r.
struct CopyColumnsParams {
  const float* in = nullptr;                  ///< [... x in_width]
  const std::int32_t* rows_wanted = nullptr;  ///< [rows] or null
  float* out = nullptr;                       ///< [rows x width]
  std::int32_t rows = 0;
  std::int32_t in_width = 0;
  std::int32_t offset = 0;
  std::int32_t width = 0;
};

cudaError_t launch(const ElementwiseParams& params, cudaStream_t stream);
cudaError_t launch(const CopyColumnsParams& params, cudaStream_t stream);

}  // namespace llminfer::cuda
