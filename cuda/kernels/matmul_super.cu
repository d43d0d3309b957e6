// Speed not yet measured.
#include "kernels/matmul_super.h"

#include "kernels/matmul_launch.cuh"

namespace llminfer::cuda {

cudaError_t launch_matmul_super(const MatMulQuantParams& p, cudaStream_t stream) {
  if (p.chunks % 4 != 0) return cudaErrorInvalidValue;
  constexpr int minima = 640;
  switch (p.type) {
    case WeightType::q2_k:
      return launch_matmul<WeightFormat<TwoBits, NibbleScales, minima>>(p, stream);
    case WeightType::q3_k:
      return launch_matmul<WeightFormat<ThreeBits, SixBitScales>>(p, stream);
    case WeightType::q4_k:
      return launch_matmul<WeightFormat<FourBits<0>, ByteScales<false>, minima>>(p, stream);
    case WeightType::q5_k:
      return launch_matmul<WeightFormat<FiveBits<0>, ByteScales<false>, minima>>(p, stream);
    case WeightType::q6_k:
      return launch_matmul<WeightFormat<SixBits, TwoByteScales>>(p, stream);
    case WeightType::iq4_xs:
      return launch_matmul<WeightFormat<TableBits<Iq4Table>, ByteScales<true>>>(p, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace llminfer::cuda
