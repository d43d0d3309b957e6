// Rows of keys or values on their way to shared memory, where ldmatrix finds the operands of tensor instructions: rows
// of 16-bit floats, each an odd multiple of 16 bytes, so that eight of them meet no bank twice. A warp brings 8 or 16
// rows of one page.
//
//   CopiedRows      f16 and bf16: asynchronous copies
//   UnpackedRows    q8_0 and q4_0: loads of 16 bytes a lane, which become halves when they are placed. A value is one
//                   rounding away from level times scale, and infinite above 65504.
#pragma once

#include "kernels/copy_async.cuh"
#include "kernels/kv_rows.cuh"
#include "kernels/mma.cuh"

namespace llminfer::cuda {

/// Bytes from row to row of a tile.
template <int D>
constexpr int tile_stride = 2 * D + 16;

template <int D, int Keys>
struct CopiedRows {
  static constexpr bool copied = true;

  /// To `to`, the warp's first row, from row `first` of a block. Rows from `there` on become zero.
  __device__ static void copy(std::uint8_t* to, const std::uint8_t* block, int first, int there, int lane) {
    constexpr int chunks = D / 8;
    static_assert(Keys * chunks % 32 == 0);
    block += 2 * D * first;
#pragma unroll
    for (int n = 0; n < Keys * chunks / 32; ++n) {
      const int i = lane + 32 * n, key = i / chunks;
      copy_async_16_or_zeros(to + key * tile_stride<D> + 16 * (i % chunks), block + 16 * i, key < there);
    }
  }
};

/// Levels of four values, one a byte from 0 on, as halves of level - zero.
__device__ inline uint2 halves_of_bytes(unsigned bytes, unsigned zero) {
  return make_uint2(sub_halves(prmt(bytes, 0x64646464U, 0x4140U), zero),
                    sub_halves(prmt(bytes, 0x64646464U, 0x4342U), zero));
}

template <KvType Type, int D, int Keys>
struct UnpackedRows {
  static constexpr bool copied = false;
  static constexpr int groups = (D + 31) / 32;
  static constexpr int columns = Type == KvType::q8_0 ? 16 : 32;  // of 16 bytes
  static constexpr int chunks = (D + columns - 1) / columns;      // of a row, of 16 bytes
  static constexpr int at_once = 32 / Keys;                       // chunks of a row that a warp loads at once
  static constexpr int turns = (chunks + at_once - 1) / at_once;
  static constexpr int scale_loads = Keys * groups / 8;  // of 16 bytes

  uint4 raw[turns];

  /// `scales`: this warp's, scale_loads long, which nobody reads any more.
  __device__ void fetch(const std::uint8_t* block, int first, uint4* scales, int lane) {
    const int row = first + lane % Keys;
#pragma unroll
    for (int n = 0; n < turns; ++n) {
      const int c = lane / Keys + at_once * n;
      if (c < chunks) raw[n] = *reinterpret_cast<const uint4*>(block + kv_chunk_at<Type>(groups, row, c));
    }
    if (lane < scale_loads) {
      copy_async_16(scales + lane, block + kv_scales_at<Type>(groups) + 2 * groups * first + 16 * lane);
    }
    commit_copies();
  }

  /// In place of a fetch: any rows, since none is there.
  __device__ void clear() {
#pragma unroll
    for (uint4& chunk : raw) chunk = make_uint4(0, 0, 0, 0);
  }

  /// To `to`, the first row; those from `there` on become zero. A barrier of the warp must come before others read
  /// them.
  __device__ void place(std::uint8_t* to, const uint4* scales, int there, int lane) const {
    wait_for_copies<0>();
    __syncwarp();
    const int key = lane % Keys;
    const auto* of_row = reinterpret_cast<const unsigned short*>(scales) + groups * key;
    to += key * tile_stride<D>;
#pragma unroll
    for (int n = 0; n < turns; ++n) {
      const int c = lane / Keys + at_once * n;
      if (c >= chunks) continue;
      const unsigned scale = key < there ? of_row[c * columns / 32] * 0x10001U : 0U;
      if constexpr (Type == KvType::q8_0) {
        place_bytes(to + 32 * c, flipped(raw[n]), pair_bits(1152, 1152), scale);
      } else {
        place_bytes(to + 64 * c, nibbles(raw[n], 0), pair_bits(1032, 1032), scale);
        if (32 * c + 16 < D) place_bytes(to + 64 * c + 32, nibbles(raw[n], 4), pair_bits(1032, 1032), scale);
      }
    }
  }

 private:
  __device__ static uint4 flipped(const uint4& v) {
    constexpr unsigned sign = 0x80808080U;
    return make_uint4(v.x ^ sign, v.y ^ sign, v.z ^ sign, v.w ^ sign);
  }
  __device__ static uint4 nibbles(const uint4& v, int shift) {
    constexpr unsigned low = 0x0f0f0f0fU;
    return make_uint4(v.x >> shift & low, v.y >> shift & low, v.z >> shift & low, v.w >> shift & low);
  }
  /// 16 values as halves.
  __device__ static void place_bytes(std::uint8_t* to, const uint4& bytes, unsigned zero, unsigned scale) {
    const uint2 a = halves_of_bytes(bytes.x, zero), b = halves_of_bytes(bytes.y, zero),
                c = halves_of_bytes(bytes.z, zero), d = halves_of_bytes(bytes.w, zero);
    auto* out = reinterpret_cast<uint4*>(to);
    out[0] = make_uint4(mul_halves(a.x, scale), mul_halves(a.y, scale), mul_halves(b.x, scale), mul_halves(b.y, scale));
    out[1] = make_uint4(mul_halves(c.x, scale), mul_halves(c.y, scale), mul_halves(d.x, scale), mul_halves(d.y, scale));
  }
};

/// How rows of a format come.
template <KvType Type, int D, int Keys>
struct RowsOf {
  using type = UnpackedRows<Type, D, Keys>;
};
template <int D, int Keys>
struct RowsOf<KvType::f16, D, Keys> {
  using type = CopiedRows<D, Keys>;
};
template <int D, int Keys>
struct RowsOf<KvType::bf16, D, Keys> {
  using type = CopiedRows<D, Keys>;
};

/// Where a lane's row for ldmatrix is in a tile, of keys: 16 keys and 16 columns are the operand B of two products, one
/// for 8 keys each, in registers 0 and 1, 2 and 3.
template <int D>
__device__ int key_row(int lane) {
  return (lane / 16 * 8 + lane % 8) * tile_stride<D> + lane / 8 % 2 * 16;
}
/// The same of values, read across: for 8 columns each.
template <int D>
__device__ int value_row(int lane) {
  return (lane / 8 % 2 * 8 + lane % 8) * tile_stride<D> + lane / 16 * 16;
}

}  // namespace llminfer::cuda
