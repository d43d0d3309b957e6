// Speed not yet measured.
#include "kernels/matmul_super.h"

#include "kernels/matmul_formats.cuh"
#include "kernels/matmul_launch.cuh"

namespace llminfer::cuda {

cudaError_t launch_matmul_super(const MatMulQuantParams& p, cudaStream_t stream) {
  if (p.chunks % 4 != 0) return cudaErrorInvalidValue;
  switch (p.type) {
    case WeightType::q2_k:
      return launch_matmul<Q2KFormat>(p, stream);
    case WeightType::q3_k:
      return launch_matmul<Q3KFormat>(p, stream);
    case WeightType::q4_k:
      return launch_matmul<Q4KFormat>(p, stream);
    case WeightType::q5_k:
      return launch_matmul<Q5KFormat>(p, stream);
    case WeightType::q6_k:
      return launch_matmul<Q6KFormat>(p, stream);
    case WeightType::iq4_xs:
      return launch_matmul<Iq4XsFormat>(p, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace llminfer::cuda
