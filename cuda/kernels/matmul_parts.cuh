// What the products with quantized weights share: levels to halves, and the end of a block.
#pragma once

#include "kernels/matmul_quant.h"
#include "kernels/mma.cuh"

namespace llminfer::cuda {

constexpr int warps = 8;
constexpr int threads = 32 * warps;

/// What a lane holds of a chunk.
struct Held {
  uint4 levels;
  unsigned high;  // fifth bits, where the format has them; of six-bit levels those of two steps
};

__device__ inline unsigned word_of(const uint4& w, int s) { return s == 0 ? w.x : s == 1 ? w.y : s == 2 ? w.z : w.w; }

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

/// Six bits, less 32: four in the nibbles, two in `high`, which has two steps at a time (host/repack_super.h).
struct SixBits {
  __device__ static void unpack(const Held& held, int s, unsigned (&a)[4]) {
    using Low = Plain<0, false>;
    constexpr unsigned base = 0x64206420U;  // 1024 + 32
    constexpr unsigned less = 0xd600d600U;  // -(64 + 32)
    const unsigned word = word_of(held.levels, s), bits = s % 2 == 0 ? held.high : held.high >> 8;
    const unsigned n0 = mask_or(word, 0x000f000fU, 0x64006400U), n1 = mask_or(word, 0x00f000f0U, 0x64006400U),
                   n2 = mask_or(word >> 8, 0x000f000fU, 0x64006400U), n3 = mask_or(word >> 8, 0x00f000f0U, 0x64006400U);
    a[0] = sub_halves(mask_or(bits << 4, 0x00300030U, n0), base);
    a[1] = fma_halves(mask_or(bits << 6, 0x03000300U, n1), Low::sixteenth, less);
    a[2] = sub_halves(mask_or(bits, 0x00300030U, n2), base);
    a[3] = fma_halves(mask_or(bits << 2, 0x03000300U, n3), Low::sixteenth, less);
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

/// Activations of a block of 32 columns, zero for rows that are not there: with one row those are seven eighths of the
/// requests.
__device__ inline uint4 activations(const MatMulQuantParams& p, int tile, int block, int lane) {
  if (tile * 8 + lane / 4 >= p.rows) return make_uint4(0, 0, 0, 0);
  return __ldg(reinterpret_cast<const uint4*>(p.fragments) +
               (static_cast<std::int64_t>(tile) * p.in_blocks + block) * 32 + lane);
}

/// Sums of a row's activations over neighbouring blocks: float2 or float4, of two or four.
template <class Sums>
__device__ Sums block_sums(const MatMulQuantParams& p, int tile, int row, int block) {
  if (tile * 8 + row >= p.rows) return Sums{};
  return *reinterpret_cast<const Sums*>(p.block_sums + block_sum_at(tile, p.in_blocks, row, block));
}

/// Sums of the warps of a block.
template <int Tiles>
using Room = float[warps][16][8 * Tiles + 1];

/// The weight that a block works on, and the block's number in it.
struct BlockTarget {
  MatMulTarget weight;
  int row_tile;
};
__device__ inline BlockTarget target_of(const MatMulQuantParams& p) {
  BlockTarget b{p.targets[0], static_cast<int>(blockIdx.x)};
#pragma unroll
  for (int n = 1; n < matmul_max_targets; ++n) {
    const int tiles = (b.weight.columns_out + 15) / 16;
    if (n < p.count && b.row_tile >= tiles) {
      b.row_tile -= tiles;
      b.weight = p.targets[n];
    } else {
      break;  // later ones are further on still
    }
  }
  return b;
}

/// Adds the warps' sums in their order and writes the block's rows.
template <int Tiles>
__device__ void store_tiles(const MatMulQuantParams& p, const BlockTarget& b, const float (&sum)[Tiles][4],
                            Room<Tiles>& room, int first_tile) {
  const int warp = static_cast<int>(threadIdx.x) / 32, g = static_cast<int>(threadIdx.x) % 32 / 4,
            t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
#pragma unroll
    for (int e = 0; e < 4; ++e) room[warp][g + e / 2 * 8][8 * tile + 2 * t + e % 2] = sum[tile][e];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 16 * 8 * Tiles; i += threads) {
    const int j = b.row_tile * 16 + i % 16, row = first_tile * 8 + i / 16;
    if (j >= b.weight.columns_out || row >= p.rows) continue;
    float v = 0;
    for (int w = 0; w < warps; ++w) v += room[w][i % 16][i / 16];
    v *= p.row_scales[row];
    const std::int64_t at = static_cast<std::int64_t>(row) * b.weight.columns_out + j;
    if (b.weight.bias != nullptr) v += b.weight.bias[j];
    if (b.weight.residual != nullptr) v += b.weight.residual[at];
    b.weight.out[at] = v;
  }
}

}  // namespace llminfer::cuda
