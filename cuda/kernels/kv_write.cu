// One warp stores one head's row of one token, 32 values at a time: a lane has one value, a quantized group is one
// reduction over the warp.
#include "kernels/kv_write.h"

#include "kernels/kv_rows.cuh"

namespace llminfer::cuda {
namespace {

/// Of 32 lanes the value that is largest in size, of equal ones the first lane's.
__device__ float extreme_of(float v) {
  for (int d = 16; d > 0; d /= 2) {
    const float other = __shfl_down_sync(0xffffffffU, v, d);
    if (fabsf(other) > fabsf(v)) v = other;
  }
  return __shfl_sync(0xffffffffU, v, 0);
}

/// Rounds half away from zero, as the scalar encoder does.
__device__ int whole(float v) {
  const float magnitude = floorf(fabsf(v) + 0.5F);
  return static_cast<int>(v < 0 ? -magnitude : magnitude);
}

template <KvType Type>
__device__ void store_group(std::uint8_t* block, int groups, int row, int group, int lane, float v) {
  constexpr int bytes = Type == KvType::q8_0 ? 32 : 16;
  const float extreme = extreme_of(v);
  const float d = Type == KvType::q8_0 ? fabsf(extreme) / 127.0F : extreme / -8.0F;
  const float inverse = d == 0 ? 0.0F : 1.0F / d;
  std::uint8_t* to = block + (row * groups + group) * bytes;
  if constexpr (Type == KvType::q8_0) {
    to[lane] = static_cast<std::uint8_t>(whole(v * inverse));
  } else {
    const int level = min(15, static_cast<int>(fmaxf(v * inverse + 8.5F, 0.0F)));
    const int upper = __shfl_down_sync(0xffffffffU, level, 16);
    if (lane < 16) to[lane] = static_cast<std::uint8_t>(level | upper << 4);
  }
  if (lane == 0) {
    unsigned short* scales = reinterpret_cast<unsigned short*>(block + kv_page * groups * bytes);
    scales[row * groups + group] = __half_as_ushort(__float2half_rn(d));
  }
}

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
    if constexpr (Type == KvType::q8_0 || Type == KvType::q4_0) {
      store_group<Type>(block, (width + 31) / 32, row, k / 32, lane, v);
    } else if (i < width) {
      if constexpr (Type == KvType::f32) reinterpret_cast<float*>(block)[row * width + i] = v;
      if constexpr (Type == KvType::f16) {
        reinterpret_cast<unsigned short*>(block)[row * width + i] = __half_as_ushort(__float2half_rn(v));
      }
      if constexpr (Type == KvType::bf16) {
        reinterpret_cast<unsigned short*>(block)[row * width + i] = __bfloat16_as_ushort(__float2bfloat16_rn(v));
      }
    }
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
