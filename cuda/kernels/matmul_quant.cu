// A block of 8 warps makes 16 rows of output for up to 32 rows of activations. Its warps take every eighth chunk of
// columns; their sums meet in shared memory and are added in the order of the warps, so that results are the same bits
// every time. Weights pass once, 16 bytes a lane; nothing of them goes through shared memory.
//
// Limits: columns a multiple of 32. Speed not yet measured.
#include "kernels/matmul_quant.h"

#include "kernels/mma.cuh"
#include "kernels/numbers.cuh"

namespace llminfer::cuda {
namespace {

constexpr int warps = 8;
constexpr int threads = 32 * warps;

/// The power of two below the largest value: 1 for rows of zeros and where there is no such number.
__device__ float row_scale(float largest) {
  const unsigned exponent = __float_as_uint(largest) & 0x7f800000U;
  if (exponent == 0x7f800000U || largest == 0) return 1.0F;
  return exponent == 0 ? __uint_as_float(0x00800000U) : __uint_as_float(exponent);
}

__global__ void __launch_bounds__(threads) fragments_kernel(FragmentsParams p) {
  __shared__ float inverse[8];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(blockIdx.x) * 8;
  float largest = 0;
  if (first + warp < p.rows) {
    const float* in = p.in + static_cast<std::int64_t>(first + warp) * p.columns;
    for (int k = lane; k < p.columns; k += 32) largest = fmaxf(largest, fabsf(in[k]));
  }
  const float scale = row_scale(warp_max(largest));
  if (lane == 0) {
    inverse[warp] = 1.0F / scale;
    p.scales[first + warp] = scale;
  }
  __syncthreads();
  const int row = lane / 4, t = lane % 4;
  const bool there = first + row < p.rows;
  const float* in = p.in + static_cast<std::int64_t>(first + row) * p.columns;
  uint4* out = reinterpret_cast<uint4*>(p.fragments) + static_cast<std::int64_t>(blockIdx.x) * p.blocks * 32 + lane;
  for (int b = warp; b < p.blocks; b += warps) {
    unsigned word[4] = {};
    if (there && 32 * b < p.columns) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float2 v = *reinterpret_cast<const float2*>(in + 32 * b + 8 * n + 2 * t);
        word[n] = pair_of_halves(v.x * inverse[row], v.y * inverse[row]);
      }
    }
    out[b * 32] = make_uint4(word[0], word[1], word[2], word[3]);
    // Sums of what the product sees: of the rounded values.
    float sum = 0;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float2 v = floats_of_pair(word[n]);
      sum += v.x + v.y;
    }
    sum += __shfl_xor_sync(0xffffffffU, sum, 1);
    sum += __shfl_xor_sync(0xffffffffU, sum, 2);
    if (t == 0) p.block_sums[(static_cast<std::int64_t>(blockIdx.x) * p.blocks + b) * 8 + row] = sum;
  }
}

/// What a lane holds of a chunk.
struct Held {
  uint4 levels;
  unsigned high;  // fifth bits, where the format has them
};

__device__ unsigned word_of(const uint4& w, int s) { return s == 0 ? w.x : s == 1 ? w.y : s == 2 ? w.z : w.w; }

/// Four or five bits without a table: level - Zero. 0x6400 | n is the half 1024 + n; n four bits higher counts sixteen
/// times.
template <int Zero, bool High>
struct Plain {
  static constexpr int chunk = 64;
  static constexpr bool has_high = High;
  static constexpr unsigned twice(unsigned half) { return half | half << 16; }
  static constexpr unsigned base = twice(0x6400U + Zero);        // 1024 + Zero
  static constexpr unsigned sixteenth = twice(0x2c00U);          // 1 / 16
  static constexpr unsigned less = twice(0xd400U + Zero * 16U);  // -(64 + Zero)
  static_assert(Zero <= 16);

  /// Registers of A for step s of the chunk.
  __device__ static void unpack(const Held& held, int s, unsigned (&a)[4]) {
    const unsigned word = word_of(held.levels, s);
    unsigned n[4] = {mask_or(word, 0x000f000fU, 0x64006400U), mask_or(word, 0x00f000f0U, 0x64006400U),
                     mask_or(word >> 8, 0x000f000fU, 0x64006400U), mask_or(word >> 8, 0x00f000f0U, 0x64006400U)};
    if constexpr (High) {
      const unsigned bits = held.high >> (4 * s);
      n[0] |= (bits & 0x00010001U) << 4;
      n[1] |= (bits & 0x00020002U) << 7;
      n[2] |= (bits & 0x00040004U) << 2;
      n[3] |= (bits & 0x00080008U) << 5;
    }
    a[0] = sub_halves(n[0], base);
    a[1] = fma_halves(n[1], sixteenth, less);
    a[2] = sub_halves(n[2], base);
    a[3] = fma_halves(n[3], sixteenth, less);
  }
};

/// Four bits that choose one of sixteen bytes (plus 128), given as four words.
template <unsigned T0, unsigned T1, unsigned T2, unsigned T3>
struct Table {
  static constexpr int chunk = 64;
  static constexpr bool has_high = false;

  /// The bytes of nibbles 0 .. 3.
  __device__ static unsigned look_up(unsigned nibbles) {
    const unsigned selector = nibbles & 0x7777U;
    const unsigned low = __byte_perm(T0, T1, selector), high = __byte_perm(T2, T3, selector);
    return __byte_perm(low, high, 0x3210U | (nibbles & 0x8888U) >> 1);
  }
  __device__ static void unpack(const Held& held, int s, unsigned (&a)[4]) {
    const unsigned word = word_of(held.levels, s);
    const unsigned first = look_up(word), second = look_up(word >> 16);
    const unsigned low = __byte_perm(first, second, 0x5140), high = __byte_perm(first, second, 0x7362);
    a[0] = half_pair(low, 0x4140);
    a[1] = half_pair(low, 0x4342);
    a[2] = half_pair(high, 0x4140);
    a[3] = half_pair(high, 0x4342);
  }
  /// A byte below 0x64 is the half 1024 + byte.
  __device__ static unsigned half_pair(unsigned bytes, unsigned selector) {
    return sub_halves(__byte_perm(bytes, 0x64646464U, selector), 0x64806480U);  // - 1152
  }
};
using Iq4Levels = Table<0x3f2d1801U, 0x766a5d4fU, 0xa6998d81U, 0xf1d9c5b5U>;
using Mxfp4Levels = Table<0x83828180U, 0x8c888684U, 0x7d7e7f80U, 0x74787a7cU>;

struct Bytes {
  static constexpr int chunk = 32;
  static constexpr bool has_high = false;
  __device__ static void unpack(const Held& held, int s, unsigned (&a)[4]) {
    const unsigned low = s == 0 ? held.levels.x : held.levels.z, high = s == 0 ? held.levels.y : held.levels.w;
    a[0] = Iq4Levels::half_pair(low, 0x4140);
    a[1] = Iq4Levels::half_pair(low, 0x4342);
    a[2] = Iq4Levels::half_pair(high, 0x4140);
    a[3] = Iq4Levels::half_pair(high, 0x4342);
  }
};

/// Scales of rows g and g + 8 of a block; `at`: its number times 8 plus g.
struct Halves {
  static constexpr bool has_minimum = false;
  __device__ static void load(const std::uint8_t* scales, std::int64_t at, float2& d, float2&) {
    d = __half22float2(__ldcs(reinterpret_cast<const half2*>(scales) + at));
  }
};
struct HalvesWithMinimum {
  static constexpr bool has_minimum = true;
  __device__ static void load(const std::uint8_t* scales, std::int64_t at, float2& d, float2& m) {
    const uint2 both = __ldcs(reinterpret_cast<const uint2*>(scales) + at);
    d = floats_of_pair(both.x);
    m = floats_of_pair(both.y);
  }
};
struct Exponents {
  static constexpr bool has_minimum = false;
  __device__ static float power(unsigned e) { return __uint_as_float(e < 2 ? 0x00200000U << e : (e - 1) << 23); }
  __device__ static void load(const std::uint8_t* scales, std::int64_t at, float2& d, float2&) {
    const unsigned both = __ldcs(reinterpret_cast<const unsigned short*>(scales) + at);
    d = make_float2(power(both & 255U), power(both >> 8));
  }
};

template <class LevelsType, class ScalesType>
struct Format {
  using Levels = LevelsType;
  using Scales = ScalesType;
};

template <class Format, int Tiles>
__global__ void __launch_bounds__(threads) matmul_quant_kernel(MatMulQuantParams p) {
  using Levels = typename Format::Levels;
  using Scales = typename Format::Scales;
  constexpr int columns = 8 * Tiles;
  __shared__ float room[warps][16][columns + 1];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4;
  const std::int64_t row_tile = blockIdx.x;
  const int first_tile = static_cast<int>(blockIdx.y) * Tiles, all_tiles = (p.rows + 7) / 8;
  const uint4* levels = reinterpret_cast<const uint4*>(p.levels) + row_tile * p.chunks * 32 + lane;
  const unsigned* high = reinterpret_cast<const unsigned*>(p.high) + row_tile * p.chunks * 32 + lane;
  const std::int64_t scale_at = row_tile * p.blocks * 8 + g;
  const uint4* in =
      reinterpret_cast<const uint4*>(p.fragments) + static_cast<std::int64_t>(first_tile) * p.in_blocks * 32 + lane;
  float sum[Tiles][4] = {};
  for (int c = warp; c < p.chunks; c += warps) {
    Held held;
    held.levels = __ldcs(levels + c * 32);
    held.high = 0;
    if constexpr (Levels::has_high) held.high = __ldcs(high + c * 32);
#pragma unroll
    for (int n = 0; n < Levels::chunk / 32; ++n) {
      const int b = c * (Levels::chunk / 32) + n;
      float2 d, m = make_float2(0, 0);
      Scales::load(p.scales, scale_at + b * 8, d, m);
      unsigned low[4], upper[4];
      Levels::unpack(held, 2 * n, low);
      Levels::unpack(held, 2 * n + 1, upper);
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
        if (first_tile + tile < all_tiles) {
          // Rows behind the last one are not read: with one row that is seven eighths of the requests.
          uint4 x = make_uint4(0, 0, 0, 0);
          if ((first_tile + tile) * 8 + g < p.rows) {
            x = __ldg(in + (static_cast<std::int64_t>(tile) * p.in_blocks + b) * 32);
          }
          float product[4] = {};
          multiply_add(product, low, x.x, x.y);
          multiply_add(product, upper, x.z, x.w);
          sum[tile][0] += d.x * product[0];
          sum[tile][1] += d.x * product[1];
          sum[tile][2] += d.y * product[2];
          sum[tile][3] += d.y * product[3];
          if constexpr (Scales::has_minimum) {
            // The minimum counts once for each activation of the block: their sums stand beside the fragments.
            const float* sums = p.block_sums + (static_cast<std::int64_t>(first_tile + tile) * p.in_blocks + b) * 8;
            const float2 x_sum = *reinterpret_cast<const float2*>(sums + 2 * t);
            sum[tile][0] += m.x * x_sum.x;
            sum[tile][1] += m.x * x_sum.y;
            sum[tile][2] += m.y * x_sum.x;
            sum[tile][3] += m.y * x_sum.y;
          }
        }
      }
    }
  }
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
#pragma unroll
    for (int e = 0; e < 4; ++e) room[warp][g + e / 2 * 8][8 * tile + 2 * t + e % 2] = sum[tile][e];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 16 * columns; i += threads) {
    const int j = static_cast<int>(row_tile) * 16 + i % 16, row = first_tile * 8 + i / 16;
    if (j >= p.columns_out || row >= p.rows) continue;
    float v = 0;
    for (int w = 0; w < warps; ++w) v += room[w][i % 16][i / 16];
    v *= p.row_scales[row];
    p.out[static_cast<std::int64_t>(row) * p.columns_out + j] = p.bias != nullptr ? v + p.bias[j] : v;
  }
}

template <class Format>
void launch_for(const MatMulQuantParams& p, cudaStream_t stream) {
  const int tiles = (p.rows + 7) / 8;
  const unsigned row_tiles = blocks_for(p.columns_out, 16);
  if (tiles == 1) {
    matmul_quant_kernel<Format, 1><<<dim3(row_tiles), threads, 0, stream>>>(p);
  } else if (tiles == 2) {
    matmul_quant_kernel<Format, 2><<<dim3(row_tiles), threads, 0, stream>>>(p);
  } else {
    matmul_quant_kernel<Format, 4><<<dim3(row_tiles, blocks_for(tiles, 4)), threads, 0, stream>>>(p);
  }
}

}  // namespace

cudaError_t launch(const FragmentsParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.columns % 32 != 0) return cudaErrorInvalidValue;
  fragments_kernel<<<blocks_for(p.rows, 8), threads, 0, stream>>>(p);
  return cudaGetLastError();
}

cudaError_t launch(const MatMulQuantParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.in_blocks < p.blocks) return cudaErrorInvalidValue;
  switch (p.type) {
    case WeightType::q4_0:
      launch_for<Format<Plain<8, false>, Halves>>(p, stream);
      break;
    case WeightType::q4_1:
      launch_for<Format<Plain<0, false>, HalvesWithMinimum>>(p, stream);
      break;
    case WeightType::q5_0:
      launch_for<Format<Plain<16, true>, Halves>>(p, stream);
      break;
    case WeightType::q5_1:
      launch_for<Format<Plain<0, true>, HalvesWithMinimum>>(p, stream);
      break;
    case WeightType::q8_0:
      launch_for<Format<Bytes, Halves>>(p, stream);
      break;
    case WeightType::iq4_nl:
      launch_for<Format<Iq4Levels, Halves>>(p, stream);
      break;
    case WeightType::mxfp4:
      launch_for<Format<Mxfp4Levels, Exponents>>(p, stream);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
