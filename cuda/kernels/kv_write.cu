// One warp stores one head's row of one token, 32 values at a time: a lane has one value, a quantized group is one
// reduction over the warp.
#include "kernels/kv_write.h"

#include "kernels/kv_store.cuh"

namespace llminfer::cuda {
namespace {

template <KvType Type>
__global__ void __launch_bounds__(32) kv_write_kernel(KvWriteParams p) {
  const int head = static_cast<int>(blockIdx.x), token = static_cast<int>(blockIdx.y);
  const int lane = static_cast<int>(threadIdx.x);
  const int position = p.step.positions[token];
  if (position < 0) return;
  const bool values = blockIdx.z != 0;
  const KvSide side = values ? p.sides[1] : p.sides[0];
  const std::int32_t* pages = p.step.pages + p.step.pages_at[p.step.sequence_of[token]];
  std::uint8_t* block = kv_block(side, pages, position, head);
  const int width = side.width, row = position % kv_page;
  const float* in = (values ? p.in[1] : p.in[0]) + (static_cast<std::int64_t>(token) * p.heads + head) * width;
  for (int k = 0; k < width; k += 32) {
    const int i = k + lane;
    const float v = i < width ? in[i] : 0.0F;
    store_value<Type>(block, width, row, i, v);
  }
}

}  // namespace

cudaError_t launch(const KvWriteParams& p, cudaStream_t stream) {
  if (p.tokens == 0) return cudaSuccess;
  if (p.tokens > 65535) return cudaErrorInvalidValue;
  if (p.count < 1 || p.count > 2 || (p.count == 2 && p.sides[0].type != p.sides[1].type)) return cudaErrorInvalidValue;
  const dim3 grid(static_cast<unsigned>(p.heads), static_cast<unsigned>(p.tokens), static_cast<unsigned>(p.count));
  const bool known =
      with_kv_type(p.sides[0].type, [&](auto tag) { kv_write_kernel<tag.value><<<grid, 32, 0, stream>>>(p); });
  return known ? cudaGetLastError() : cudaErrorInvalidValue;
}

}  // namespace llminfer::cuda
