// As matmul_quant.cu, but a warp takes blocks of 256 columns, since those share
// a scale: 16 rows of them are loaded at once, 2 KB of levels and what belongs
// to them, before the first product.
//
// Scales of a group are whole numbers of 8 bits under the block's half: a byte
// becomes a float by putting it into the last bits of 2^23. Limits: columns a
// multiple of 256. Speed not yet measured.
#include "kernels/matmul_super.h"

#include "kernels/matmul_parts.cuh"

namespace llminfer::cuda {
namespace {

/// Byte `n` of a word as a float, plus 2^23.
__device__ float byte_on_rounder(unsigned word, int n) {
  return __uint_as_float(__byte_perm(word, 0x4b000000U, 0x7440U + static_cast<unsigned>(n)));
}
constexpr float rounder = 8388608.0F;

/// Q4_K and Q5_K: a group of 32 has a scale and a minimum, the block d and
/// dmin. A word has those of rows g and g + 8.
template <bool High>
struct Grouped32 {
  static constexpr int high_words = High ? 1 : 0;  // of a lane and 64 columns
  static constexpr int super_bytes = 8;            // of two rows
  static constexpr int group_bytes = 4;            // of a group of 32 and two rows
  static constexpr int scales = 1;                 // of a group of 32
  static constexpr int most_tiles = High ? 2 : 4;  // of 8 rows of activations, in a block: four may spill registers
  static constexpr bool has_minimum = true;
  using Levels = Plain<0, High>;

  float2 d, less_d, dmin, less_dmin;
  __device__ void load(const std::uint8_t* p) {
    const uint2 both = __ldcs(reinterpret_cast<const uint2*>(p));
    const float2 a = floats_of_pair(both.x), b = floats_of_pair(both.y);
    d = make_float2(a.x, b.x);
    dmin = make_float2(a.y, b.y);
    less_d = make_float2(-rounder * d.x, -rounder * d.y);  // exact
    less_dmin = make_float2(-rounder * dmin.x, -rounder * dmin.y);
  }
  __device__ float2 scale(unsigned word, int) const {
    return make_float2(fmaf(byte_on_rounder(word, 0), d.x, less_d.x), fmaf(byte_on_rounder(word, 2), d.y, less_d.y));
  }
  __device__ float2 minimum(unsigned word) const {
    return make_float2(fmaf(byte_on_rounder(word, 1), dmin.x, less_dmin.x),
                       fmaf(byte_on_rounder(word, 3), dmin.y, less_dmin.y));
  }
};

/// Q6_K: a group of 16 has a scale with a sign (here plus 128), the block d.
struct Grouped16 {
  static constexpr int high_words = 2;
  static constexpr int super_bytes = 4;
  static constexpr int group_bytes = 4;
  static constexpr int scales = 2;
  static constexpr int most_tiles = 4;
  static constexpr bool has_minimum = false;
  using Levels = SixBits;

  float2 d;
  __device__ void load(const std::uint8_t* p) { d = floats_of_pair(__ldcs(reinterpret_cast<const unsigned*>(p))); }
  __device__ float2 scale(unsigned word, int half) const {
    return make_float2((byte_on_rounder(word, half) - (rounder + 128)) * d.x,
                       (byte_on_rounder(word, 2 + half) - (rounder + 128)) * d.y);
  }
};

/// IQ4_XS: levels from a table, a group of 32 has a scale with a sign (here
/// plus 128), the block d.
struct GroupedTable {
  static constexpr int high_words = 0;
  static constexpr int super_bytes = 4;
  static constexpr int group_bytes = 2;
  static constexpr int scales = 1;
  static constexpr int most_tiles = 2;  // four would spill registers
  static constexpr bool has_minimum = false;
  using Levels = Iq4Levels;

  float2 d;
  __device__ void load(const std::uint8_t* p) { d = floats_of_pair(__ldcs(reinterpret_cast<const unsigned*>(p))); }
  __device__ float2 scale(unsigned word, int) const {
    return make_float2((byte_on_rounder(word, 0) - (rounder + 128)) * d.x,
                       (byte_on_rounder(word, 1) - (rounder + 128)) * d.y);
  }
};

/// What a lane holds of a block of 256 columns.
template <class Groups>
struct HeldSuper {
  uint4 levels[4];
  unsigned high[4 * (Groups::high_words > 0 ? Groups::high_words : 1)];
  uint4 words[Groups::group_bytes / 2];  // of the eight groups of 32
  Groups groups;

  /// Bytes of a group.
  __device__ unsigned word(int n) const {
    if constexpr (Groups::group_bytes == 4) return word_of(words[n / 4], n % 4);
    return word_of(words[0], n / 2) >> (n % 2 * 16);
  }
};

__device__ float value_of(const float4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

template <class Groups>
__device__ void load(const MatMulQuantParams& p, const BlockTarget& b, int super, int lane, HeldSuper<Groups>& held) {
  const std::int64_t at = static_cast<std::int64_t>(b.row_tile) * (p.chunks / 4) + super;
  const uint4* levels = reinterpret_cast<const uint4*>(b.weight.levels) + at * 128 + lane;
#pragma unroll
  for (int c = 0; c < 4; ++c) held.levels[c] = __ldcs(levels + 32 * c);
  if constexpr (Groups::high_words == 1) {
    const unsigned* high = reinterpret_cast<const unsigned*>(b.weight.high) + at * 128 + lane;
#pragma unroll
    for (int c = 0; c < 4; ++c) held.high[c] = __ldcs(high + 32 * c);
  }
  if constexpr (Groups::high_words == 2) {
    const uint2* high = reinterpret_cast<const uint2*>(b.weight.high) + at * 128 + lane;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const uint2 v = __ldcs(high + 32 * c);
      held.high[2 * c] = v.x;
      held.high[2 * c + 1] = v.y;
    }
  }
  constexpr int words = 64 * Groups::group_bytes;
  const std::uint8_t* scales = b.weight.scales + at * (words + 8 * Groups::super_bytes);
  const int g = lane / 4;
#pragma unroll
  for (int i = 0; i < Groups::group_bytes / 2; ++i) {
    held.words[i] = __ldcs(reinterpret_cast<const uint4*>(scales) + 8 * i + g);
  }
  held.groups.load(scales + words + g * Groups::super_bytes);
}

template <class Groups, int Tiles>
__global__ void __launch_bounds__(threads) matmul_super_kernel(MatMulQuantParams p) {
  using Levels = typename Groups::Levels;
  __shared__ Room<Tiles> room;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int t = lane % 4;  // the lane's products are those of rows 2 t and 2 t +
                           // 1 of a tile of activations
  const BlockTarget target = target_of(p);
  const int first_tile = static_cast<int>(blockIdx.y) * Tiles, all_tiles = (p.rows + 7) / 8;
  float sum[Tiles][4] = {};
  for (int super = warp; super < p.chunks / 4; super += warps) {
    HeldSuper<Groups> held;
    load(p, target, super, lane, held);
    float4 x_sums[Tiles][2];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int b = super * 8 + n;
      const unsigned word = held.word(n);
      Held chunk;
      chunk.levels = held.levels[n / 2];
      chunk.high = Groups::high_words == 2 ? held.high[n] : Groups::high_words == 1 ? held.high[n / 2] : 0;
      unsigned low[4], upper[4];
      Levels::unpack(chunk, n % 2 * 2, low);
      Levels::unpack(chunk, n % 2 * 2 + 1, upper);
      const float2 first = held.groups.scale(word, 0);
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
        if (first_tile + tile >= all_tiles) continue;
        const uint4 x = activations(p, first_tile + tile, b, lane);
        float product[4] = {};
        multiply_add(product, low, x.x, x.y);
        if constexpr (Groups::scales == 2 && !Groups::has_minimum) {
          // A scale each for the two steps.
          const float2 second = held.groups.scale(word, 1);
          float other[4] = {};
          multiply_add(other, upper, x.z, x.w);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            sum[tile][e] += (e < 2 ? first.x : first.y) * product[e];
            sum[tile][e] += (e < 2 ? second.x : second.y) * other[e];
          }
          continue;
        }
        multiply_add(product, upper, x.z, x.w);
        if constexpr (Groups::has_minimum) {
          if (n % 4 == 0) {
            x_sums[tile][0] = block_sums<float4>(p, first_tile + tile, 2 * t, b);
            x_sums[tile][1] = block_sums<float4>(p, first_tile + tile, 2 * t + 1, b);
          }
          const float2 m = held.groups.minimum(word);
          const float even = value_of(x_sums[tile][0], n % 4), odd = value_of(x_sums[tile][1], n % 4);
          sum[tile][0] += first.x * product[0] - m.x * even;
          sum[tile][1] += first.x * product[1] - m.x * odd;
          sum[tile][2] += first.y * product[2] - m.y * even;
          sum[tile][3] += first.y * product[3] - m.y * odd;
        } else {
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[tile][e] += (e < 2 ? first.x : first.y) * product[e];
        }
      }
    }
  }
  store_tiles<Tiles>(p, target, sum, room, first_tile);
}

template <class Groups>
void launch_for(const MatMulQuantParams& p, cudaStream_t stream) {
  const int tiles = (p.rows + 7) / 8;
  const unsigned row_tiles = row_tiles_of(p);
  if (tiles == 1) {
    matmul_super_kernel<Groups, 1><<<dim3(row_tiles), threads, 0, stream>>>(p);
  } else if (tiles == 2 || Groups::most_tiles == 2) {
    matmul_super_kernel<Groups, 2><<<dim3(row_tiles, blocks_for(tiles, 2)), threads, 0, stream>>>(p);
  } else {
    constexpr int most = Groups::most_tiles;
    matmul_super_kernel<Groups, most><<<dim3(row_tiles, blocks_for(tiles, most)), threads, 0, stream>>>(p);
  }
}

}  // namespace

cudaError_t launch_matmul_super(const MatMulQuantParams& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  if (p.chunks % 4 != 0) return cudaErrorInvalidValue;
  switch (p.type) {
    case WeightType::q4_k:
      launch_for<Grouped32<false>>(p, stream);
      break;
    case WeightType::q5_k:
      launch_for<Grouped32<true>>(p, stream);
      break;
    case WeightType::q6_k:
      launch_for<Grouped16>(p, stream);
      break;
    case WeightType::iq4_xs:
      launch_for<GroupedTable>(p, stream);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
