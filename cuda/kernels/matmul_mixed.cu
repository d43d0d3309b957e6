// The first blocks have weights of one format, those behind them of the other; each does what a block of
// matmul_decode.cuh does. Not yet measured.
#include "kernels/matmul_mixed.h"

#include "kernels/matmul_decode.cuh"
#include "kernels/matmul_formats.cuh"

namespace llminfer::cuda {
namespace {

constexpr int groups = 2;  // of 64 rows of weights

/// Blocks of four warps that a multiprocessor is to have room for.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
constexpr int blocks_of_four = 2;  // three would spill
#else
constexpr int blocks_of_four = 3;
#endif

template <class First, class Second, int Warps>
__global__ void __launch_bounds__(32 * Warps, Warps == 4 ? blocks_of_four : 1)
    matmul_mixed_kernel(MatMulQuantParams first, MatMulQuantParams second, unsigned first_blocks) {
  __shared__ DecodeRoom<groups, Warps> room;
  if (blockIdx.x < first_blocks) {
    decode_block<First, groups, Warps, false>(first, 0, room);
  } else {
    decode_block<Second, groups, Warps, false>(second, first_blocks, room);
  }
}

struct Mixed {
  WeightType first, second;
  cudaError_t (*launch)(const MatMulQuantParams&, const MatMulQuantParams&, cudaStream_t);
};

template <class First, class Second>
cudaError_t launch_pair(const MatMulQuantParams& first, const MatMulQuantParams& second, cudaStream_t stream) {
  constexpr int warps = First::narrow || Second::narrow ? 4 : 8;
  const unsigned of_first = row_blocks_of(first, 64 * groups), blocks = of_first + row_blocks_of(second, 64 * groups);
  const Sharing sharing = sharing_of(first, blocks, 64 * groups, first.chunks / warps);
  return launch_sharing(matmul_mixed_kernel<First, Second, warps>, sharing, dim3(blocks), 32 * warps, 0, stream, first,
                        second, of_first);
}

/// What files have: queries and keys, then values; or queries, then keys and values. With rows that are no multiple of
/// 256 columns the last ones.
constexpr Mixed table[] = {
    {WeightType::q3_k, WeightType::q4_k, launch_pair<Q3KFormat, Q4KFormat>},
    {WeightType::q3_k, WeightType::q5_k, launch_pair<Q3KFormat, Q5KFormat>},
    {WeightType::q4_k, WeightType::q5_k, launch_pair<Q4KFormat, Q5KFormat>},
    {WeightType::q4_k, WeightType::q6_k, launch_pair<Q4KFormat, Q6KFormat>},
    {WeightType::q4_k, WeightType::q8_0, launch_pair<Q4KFormat, Q80Format>},
    {WeightType::q5_k, WeightType::q6_k, launch_pair<Q5KFormat, Q6KFormat>},
    {WeightType::iq4_xs, WeightType::q5_k, launch_pair<Iq4XsFormat, Q5KFormat>},
    {WeightType::q5_0, WeightType::q8_0, launch_pair<Q50Format, Q80Format>},
    {WeightType::q5_1, WeightType::q8_0, launch_pair<Q51Format, Q80Format>},
};

const Mixed* find(WeightType first, WeightType second) {
  for (const Mixed& m : table) {
    if (m.first == first && m.second == second) return &m;
  }
  return nullptr;
}

}  // namespace

bool matmul_mixes(WeightType first, WeightType second) { return find(first, second) != nullptr; }

cudaError_t launch_mixed(const MatMulQuantParams& first, const MatMulQuantParams& second, cudaStream_t stream) {
  if (first.rows == 0) return cudaSuccess;
  const Mixed* m = find(first.type, second.type);
  const bool fits = first.rows <= 8 && second.rows == first.rows && first.chunks == second.chunks &&
                    first.in_blocks >= 2 * first.chunks && first.tiles == nullptr;
  if (m == nullptr || !fits) return cudaErrorInvalidValue;
  return m->launch(first, second, stream);
}

}  // namespace llminfer::cuda
