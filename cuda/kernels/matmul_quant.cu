// Products with weights in blocks of 32 columns, and with F16 and BF16. Speed not yet measured.
#include "kernels/matmul_quant.h"

#include "kernels/matmul_formats.cuh"
#include "kernels/matmul_launch.cuh"
#include "kernels/matmul_super.h"

namespace llminfer::cuda {

cudaError_t launch(const MatMulQuantParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.in_blocks < 2 * p.chunks || p.count < 1 || p.count > matmul_max_targets) return cudaErrorInvalidValue;
  const MatMulEnd& end = p.end;
  if (end.gated && (p.count != 2 || p.targets[0].columns_out != p.targets[1].columns_out)) return cudaErrorInvalidValue;
  if (end.next.in != nullptr && (end.arrivals == nullptr || end.next.columns % 32 != 0)) return cudaErrorInvalidValue;
  if (end.add.in != nullptr && (end.arrivals == nullptr || end.add.columns % 4 != 0 || p.tiles != nullptr)) {
    return cudaErrorInvalidValue;
  }
  if (end.heads.queries.in != nullptr) {
    const bool fits = p.tiles == nullptr && end.head_arrivals != nullptr && end.heads.queries.rows == p.rows;
    if (!fits || !matmul_takes_heads(end.heads)) return cudaErrorInvalidValue;
  }
  if (p.tiles != nullptr && (p.rows % 8 != 0 || p.rows / 8 > 65535 || p.tile_rows == nullptr)) {
    return cudaErrorInvalidValue;
  }
  if (end.combine.in != nullptr && (p.tiles == nullptr || end.arrivals == nullptr || end.column_arrivals == nullptr)) {
    return cudaErrorInvalidValue;
  }
  switch (p.type) {
    case WeightType::q4_0:
      return launch_matmul<Q40Format>(p, stream);
    case WeightType::q4_1:
      return launch_matmul<Q41Format>(p, stream);
    case WeightType::q5_0:
      return launch_matmul<Q50Format>(p, stream);
    case WeightType::q5_1:
      return launch_matmul<Q51Format>(p, stream);
    case WeightType::q8_0:
      return launch_matmul<Q80Format>(p, stream);
    case WeightType::iq4_nl:
      return launch_matmul<Iq4NlFormat>(p, stream);
    case WeightType::mxfp4:
      return launch_matmul<Mxfp4Format>(p, stream);
    case WeightType::f16:
      return launch_matmul<F16Format>(p, stream);
    case WeightType::bf16:
      return launch_matmul<Bf16Format>(p, stream);
    default:
      return launch_matmul_super(p, stream);
  }
}

}  // namespace llminfer::cuda
