// Levels of a chunk of 64 rows and 64 columns (host/fragment_levels.h) as a lane holds them, and their way into the
// registers of A.
//
// A half whose exponent is zero is linear in its bits: level n at place p of a half is the number n 2^(p - 24),
// exactly, and tensor cores multiply such numbers as they do all others. So a mask is all that most levels need. The
// zero of a format is not subtracted from levels but, times the sum of the activations, from where the sum of products
// begins.
#pragma once

#include <cstdint>

#include "kernels/mma.cuh"

namespace llminfer::cuda {

__device__ inline unsigned word_of(const uint4& w, int s) { return s == 0 ? w.x : s == 1 ? w.y : s == 2 ? w.z : w.w; }

/// 16 bytes that are read once.
__device__ inline uint4 stream16(const std::uint8_t* p) { return __ldcs(reinterpret_cast<const uint4*>(p)); }

__device__ inline unsigned turn(unsigned w, int n) { return n == 0 ? w : __funnelshift_r(w, w, n); }

__host__ __device__ constexpr float power_of_two(int e) {
  float v = 1;
  for (; e < 0; ++e) v /= 2;
  for (; e > 0; --e) v *= 2;
  return v;
}

/// A constant that stays in its register: an instruction takes one constant, and the compiler would rather move others
/// into registers each time. `zero` is 0, which only we know.
struct Hidden {
  unsigned zero;
  __device__ unsigned operator()(unsigned constant) const { return constant ^ zero; }
};

/// What a level of one is worth in A, in rows g and in rows g + 8.
struct Unit {
  float first, second;
};
__host__ __device__ constexpr Unit unit_of_places(int first, int second) {
  return {power_of_two(first - 24), power_of_two(second - 24)};
}

/// What a warp of 32 rows keeps of words for four tiles: those of tiles 2 and 3, if it works on these, take the place
/// of the others.
__device__ inline void keep_two(uint4& words, bool second) {
  if (!second) return;
  words.x = words.z;
  words.y = words.w;
}

/// The levels of all formats have
///   bytes   of a chunk
///   zero    the level that stands for zero
///   unit    and, where steps differ, unit_of(step): their scales (matmul_scales.cuh) put that right
///   prepare(), of constants, once
///   load(chunk + 16 * lane), or
///   load_two(chunk + 16 * lane, second): of tiles 2 and 3, or 0 and 1, as tiles 0 and 1
///   unpack(tile, step, registers of A).
template <int Zero>
struct FourBits {
  static constexpr int bytes = 2048;
  static constexpr float zero = Zero;
  static constexpr Unit unit = unit_of_places(0, 4);
  uint4 words[4];

  __device__ void prepare(Hidden) {}
  __device__ void load(const std::uint8_t* p) {
#pragma unroll
    for (int tile = 0; tile < 4; ++tile) words[tile] = stream16(p + 512 * tile);
  }
  __device__ void load_two(const std::uint8_t* p, bool second) {
    words[0] = stream16(p + (second ? 1024 : 0));
    words[1] = stream16(p + (second ? 1536 : 512));
  }
  __device__ void unpack(int tile, int step, unsigned (&a)[4]) const {
    const unsigned w = word_of(words[tile], step), v = w >> 8;
    a[0] = w & 0x000f000fU;
    a[1] = w & 0x00f000f0U;
    a[2] = v & 0x000f000fU;
    a[3] = v & 0x00f000f0U;
  }
};

template <int Zero>
struct FiveBits {
  static constexpr int bytes = 2560;
  static constexpr float zero = Zero;
  static constexpr Unit unit = unit_of_places(0, 4);
  FourBits<0> low;
  uint4 high;

  __device__ void prepare(Hidden) {}
  __device__ void load(const std::uint8_t* p) {
    low.load(p);
    high = stream16(p + 2048);
  }
  __device__ void load_two(const std::uint8_t* p, bool second) {
    low.load_two(p, second);
    high = stream16(p + 2048);
    keep_two(high, second);
  }
  __device__ void unpack(int tile, int step, unsigned (&a)[4]) const {
    low.unpack(tile, step, a);
    const unsigned h = turn(word_of(high, tile), step), i = turn(word_of(high, tile), step + 8);
    a[0] = mask_or(h, 0x00100010U, a[0]);
    a[1] = mask_or(h, 0x01000100U, a[1]);
    a[2] = mask_or(i, 0x00100010U, a[2]);
    a[3] = mask_or(i, 0x01000100U, a[3]);
  }
};

struct SixBits {
  static constexpr int bytes = 3072;
  static constexpr float zero = 32;
  static constexpr Unit unit = unit_of_places(0, 4);
  FourBits<0> low;
  uint4 high[2];

  __device__ void prepare(Hidden) {}
  __device__ void load(const std::uint8_t* p) {
    low.load(p);
    high[0] = stream16(p + 2048);
    high[1] = stream16(p + 2560);
  }
  __device__ void load_two(const std::uint8_t* p, bool second) {
    low.load_two(p, second);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      high[i] = stream16(p + 2048 + 512 * i);
      keep_two(high[i], second);
    }
  }
  __device__ void unpack(int tile, int step, unsigned (&a)[4]) const {
    low.unpack(tile, step, a);
    const unsigned word = word_of(high[step / 2], tile);
    const unsigned h = turn(word, step % 2 * 2), i = turn(word, step % 2 * 2 + 8);
    a[0] = mask_or(h, 0x00300030U, a[0]);
    a[1] = mask_or(h, 0x03000300U, a[1]);
    a[2] = mask_or(i, 0x00300030U, a[2]);
    a[3] = mask_or(i, 0x03000300U, a[3]);
  }
};

/// Two bits: an odd step counts sixteen times less.
struct TwoBits {
  static constexpr int bytes = 1024;
  static constexpr float zero = 0;
  static constexpr Unit unit = unit_of_places(6, 4);
  __host__ __device__ static constexpr Unit unit_of(int step) { return step % 2 == 0 ? unit : unit_of_places(2, 0); }
  uint4 words[2];

  __device__ void prepare(Hidden) {}
  __device__ void load(const std::uint8_t* p) {
    words[0] = stream16(p);
    words[1] = stream16(p + 512);
  }
  __device__ void load_two(const std::uint8_t* p, bool second) { words[0] = stream16(p + (second ? 512 : 0)); }
  __device__ void unpack(int tile, int step, unsigned (&a)[4]) const {
    const unsigned w = word_of(words[tile / 2], tile % 2 * 2 + step / 2), v = w >> 8;
    const unsigned first = step % 2 == 0 ? 0x00c000c0U : 0x000c000cU, second = first >> 2;
    a[0] = w & first;
    a[1] = w & second;
    a[2] = v & first;
    a[3] = v & second;
  }
};

struct ThreeBits {
  static constexpr int bytes = 1536;
  static constexpr float zero = 4;
  static constexpr Unit unit = unit_of_places(0, 3);
  __host__ __device__ static constexpr Unit unit_of(int step) { return step < 3 ? unit : unit_of_places(6, 6); }
  uint4 words[3];

  __device__ void prepare(Hidden) {}
  __device__ void load(const std::uint8_t* p) {
#pragma unroll
    for (int i = 0; i < 3; ++i) words[i] = stream16(p + 512 * i);
  }
  /// As many as there are registers for beside all levels of 64 other rows, and the others.
  __device__ void load_most(const std::uint8_t* p) {
    words[0] = stream16(p);
    words[1] = stream16(p + 512);
  }
  __device__ void load_rest(const std::uint8_t* p) { words[2] = stream16(p + 1024); }
  /// Words 0 .. 5, or 6 .. 11.
  __device__ void load_two(const std::uint8_t* p, bool second) {
    const uint4 a = stream16(p + (second ? 512 : 0)), b = stream16(p + (second ? 1024 : 512));
    words[0] = second ? make_uint4(a.z, a.w, b.x, b.y) : a;
    words[1].x = second ? b.z : b.x;
    words[1].y = second ? b.w : b.y;
  }
  /// Three a tile.
  __device__ unsigned word(int tile, int n) const { return word_of(words[(3 * tile + n) / 4], (3 * tile + n) % 4); }
  __device__ void unpack(int tile, int step, unsigned (&a)[4]) const {
    if (step < 3) {
      const unsigned w = word(tile, step), v = w >> 9;
      a[0] = w & 0x00070007U;
      a[1] = w & 0x00380038U;
      a[2] = v & 0x00070007U;
      a[3] = v & 0x00380038U;
      return;
    }
    const unsigned over = mask_or(word(tile, 1) >> 8, 0x00800080U, word(tile, 0) >> 9 & 0x00400040U);
#pragma unroll
    for (int r = 0; r < 3; ++r) a[r] = word(tile, r) & 0x01c001c0U;
    a[3] = mask_or(word(tile, 2) >> 7, 0x01000100U, over);
  }
};

struct EightBits {
  static constexpr int bytes = 4096;
  static constexpr float zero = 128;
  static constexpr Unit unit = unit_of_places(0, 0);
  uint4 words[2][4];

  __device__ void prepare(Hidden) {}
  __device__ void load(const std::uint8_t* p) {
#pragma unroll
    for (int i = 0; i < 8; ++i) words[i / 4][i % 4] = stream16(p + 512 * i);
  }
  __device__ void load_two(const std::uint8_t* p, bool second) {
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i / 2][i % 2] = stream16(p + (second ? 1024 : 0) + i / 2 * 2048 + i % 2 * 512);
  }
  __device__ void unpack(int tile, int step, unsigned (&a)[4]) const {
    const unsigned low = word_of(words[step / 2][tile], step % 2 * 2),
                   high = word_of(words[step / 2][tile], step % 2 * 2 + 1);
    a[0] = __byte_perm(low, 0, 0x4140);
    a[1] = __byte_perm(low, 0, 0x4342);
    a[2] = __byte_perm(high, 0, 0x4140);
    a[3] = __byte_perm(high, 0, 0x4342);
  }
};

/// Four bits that choose one of sixteen bytes, all of them IQ4's plus 128.
struct Iq4Table {
  static constexpr float zero = 128;
  unsigned table[4];
  __device__ void prepare(Hidden h) {
    table[0] = h(0x3f2d1801U);
    table[1] = h(0x766a5d4fU);
    table[2] = h(0xa6998d81U);
    table[3] = h(0xf1d9c5b5U);
  }
  /// Bytes of nibbles 0 .. 3, then of 4 .. 7.
  __device__ void look_up(unsigned w, unsigned (&bytes)[2]) const {
    const unsigned seven = w & 0x77777777U, choice = mask_or(w >> 1, 0x44444444U, 0x32103210U);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned selector = seven >> (16 * i);
      bytes[i] = prmt(prmt(table[0], table[1], selector), prmt(table[2], table[3], selector), choice >> (16 * i));
    }
  }
};
/// MXFP4's levels plus 12. They have seven bits: a selector's fourth bit makes zero of those bytes, so that half the
/// table each gives them and zeros.
struct Mxfp4Table {
  static constexpr float zero = 12;
  unsigned table[4];
  __device__ void prepare(Hidden h) {
    table[0] = h(0x0f0e0d0cU);
    table[1] = h(0x18141210U);
    table[2] = h(0x090a0b0cU);
    table[3] = h(0x00040608U);
  }
  __device__ void look_up(unsigned w, unsigned (&bytes)[2]) const {
    const unsigned v = w ^ 0x88888888U;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      bytes[i] = prmt(table[0], table[1], w >> (16 * i)) | prmt(table[2], table[3], v >> (16 * i));
    }
  }
};

template <class Bytes>
struct TableBits {
  static constexpr int bytes = 2048;
  static constexpr float zero = Bytes::zero;
  static constexpr Unit unit = unit_of_places(0, 0);
  FourBits<0> low;
  Bytes bytes_of;

  __device__ void prepare(Hidden h) { bytes_of.prepare(h); }
  __device__ void load(const std::uint8_t* p) { low.load(p); }
  __device__ void load_two(const std::uint8_t* p, bool second) { low.load_two(p, second); }
  /// See ThreeBits.
  __device__ void load_most(const std::uint8_t* p) {
#pragma unroll
    for (int tile = 0; tile < 3; ++tile) low.words[tile] = stream16(p + 512 * tile);
  }
  __device__ void load_rest(const std::uint8_t* p) { low.words[3] = stream16(p + 1536); }
  __device__ void unpack(int tile, int step, unsigned (&a)[4]) const {
    unsigned found[2];
    bytes_of.look_up(word_of(low.words[tile], step), found);
    a[0] = __byte_perm(found[0], 0, 0x4140);
    a[1] = __byte_perm(found[0], 0, 0x4342);
    a[2] = __byte_perm(found[1], 0, 0x4140);
    a[3] = __byte_perm(found[1], 0, 0x4342);
  }
};

/// Halves, or bfloat16, as they are.
template <bool Bfloat16>
struct SixteenBits {
  static constexpr bool bfloat16 = Bfloat16;
  static constexpr int bytes = 8192;
  static constexpr float zero = 0;
  static constexpr Unit unit = {1, 1};
  uint4 words[4][4];

  __device__ void prepare(Hidden) {}
  __device__ void load(const std::uint8_t* p) {
#pragma unroll
    for (int i = 0; i < 16; ++i) words[i / 4][i % 4] = stream16(p + 512 * i);
  }
  /// Of a block of 32 columns.
  __device__ void load_two(const std::uint8_t* p, bool second, int block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[2 * block + i / 2][i % 2] = stream16(p + (second ? 1024 : 0) + (2 * block + i / 2) * 2048 + i % 2 * 512);
    }
  }
  __device__ void unpack(int tile, int step, unsigned (&a)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = word_of(words[step][tile], i);
  }
};

}  // namespace llminfer::cuda
