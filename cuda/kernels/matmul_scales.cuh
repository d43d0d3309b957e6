// Scales of a chunk of 64 rows and 64 columns (host/fragment_scales.h) as a lane holds them.
#pragma once

#include "kernels/matmul_levels.cuh"

namespace llminfer::cuda {

/// The scales of all formats have
///   bytes    of a chunk, behind its levels
///   groups   of 16 columns in a step each (2), or one for both steps of a block (1)
///   minimum  whether there are minima as halves
///   unit     what a scale of one is worth
///   prepare(), of constants, once
///   load(behind the levels + 16 g), or
///   load_two(behind the levels + 16 g, second): see matmul_levels.cuh
///   scale(tile, block, step of the block): of rows g and g + 8
/// and formats with a d that those are multiplied by
///   d
///   stored(tile, block, step): the scales as pairs of halves, 1024 + zero + scale * stored_unit(step).
struct HalfScales {
  static constexpr int bytes = 256, groups = 1;
  static constexpr bool minimum = false, super = false;
  static constexpr float unit = 1;
  uint4 words[2];

  __device__ void prepare(Hidden) {}
  __device__ void load(const std::uint8_t* p) {
    words[0] = stream16(p);
    words[1] = stream16(p + 128);
  }
  __device__ void load_two(const std::uint8_t* p, bool second) {
    load(p);
    keep_two(words[0], second);
    keep_two(words[1], second);
  }
  __device__ float2 scale(int tile, int block, int) const { return floats_of_pair(word_of(words[block], tile)); }
};

struct HalfMinimumScales {
  static constexpr int bytes = 512, groups = 1;
  static constexpr bool minimum = true, super = false;
  static constexpr float unit = 1;
  uint4 words[2][2];

  __device__ void prepare(Hidden) {}
  __device__ void load(const std::uint8_t* p) {
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i / 2][i % 2] = stream16(p + 128 * i);
  }
  /// Without the minima.
  __device__ void load_two(const std::uint8_t* p, bool second) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      words[i][0] = stream16(p + 256 * i);
      keep_two(words[i][0], second);
    }
  }
  __device__ float2 scale(int tile, int block, int) const { return floats_of_pair(word_of(words[block][0], tile)); }
  __device__ float2 minimum_of(int tile, int block) const { return floats_of_pair(word_of(words[block][1], tile)); }
};

/// MXFP4: 2^(e - 128), here twice that, as a float has e in its exponent; e = 0 is a subnormal. Twice the largest of
/// them is no float any more: the float below stands for it.
struct ExponentScales {
  static constexpr int bytes = 128, groups = 1;
  static constexpr bool minimum = false, super = false;
  static constexpr float unit = 2;
  uint4 words;

  __device__ void prepare(Hidden) {}
  __device__ void load(const std::uint8_t* p) { words = stream16(p); }
  __device__ void load_two(const std::uint8_t* p, bool second) {
    load(p);
    keep_two(words, second);
  }
  __device__ static float power(unsigned e_on_top) {
    return __uint_as_float(min(max(e_on_top >> 1, 0x00400000U), 0x7f7fffffU));
  }
  __device__ float2 scale(int tile, int block, int) const {
    const unsigned w = word_of(words, tile);
    return make_float2(power(__byte_perm(w, 0, block == 0 ? 0x0444 : 0x2444)),
                       power(__byte_perm(w, 0, block == 0 ? 0x1444 : 0x3444)));
  }
};

/// Halves above the scales of groups, of rows g and g + 8 of four tiles.
struct SuperScale {
  uint4 words;
  __device__ void load(const std::uint8_t* p) { words = stream16(p); }
  __device__ void load_two(const std::uint8_t* p, bool second) {
    load(p);
    keep_two(words, second);
  }
  __device__ float2 of(int tile) const { return floats_of_pair(word_of(words, tile)); }
};

/// Two bytes of a word, as halves in which they count 2^-24.
__device__ inline unsigned bytes_as_halves(unsigned word, int pair) {
  return __byte_perm(word, 0, pair == 0 ? 0x4140 : 0x4342);
}
/// The same as they are, plus 1024: 0x6400 | n is the half 1024 + n.
struct BytesOn1024 {
  unsigned upper;
  __device__ void prepare(Hidden h) { upper = h(0x64646464U); }
  __device__ unsigned operator()(unsigned word, int pair) const {
    return __byte_perm(word, upper, pair == 0 ? 0x4140 : 0x4342);
  }
  __device__ unsigned less_128(unsigned word, int pair) const { return sub_halves((*this)(word, pair), 0x64806480U); }
};

template <bool Signed>
struct ByteScales {
  static constexpr int bytes = 128, groups = 1;
  static constexpr bool minimum = false, super = true;
  static constexpr float unit = Signed ? 1.0F : power_of_two(-24);
  static constexpr int zero = Signed ? 128 : 0;
  uint4 words;
  SuperScale d;
  BytesOn1024 on_1024;

  __device__ void prepare(Hidden h) { on_1024.prepare(h); }
  __device__ void load(const std::uint8_t* p) { words = stream16(p); }
  __device__ void load_two(const std::uint8_t* p, bool second) {
    load(p);
    keep_two(words, second);
  }
  __host__ __device__ static constexpr int stored_unit(int) { return 1; }
  __device__ unsigned stored(int tile, int block, int) const { return on_1024(word_of(words, tile), block); }
  __device__ float2 scale(int tile, int block, int) const {
    const unsigned w = word_of(words, tile);
    return floats_of_pair(Signed ? on_1024.less_128(w, block) : bytes_as_halves(w, block));
  }
};

/// Two to a byte: what is cut out of the upper bits counts sixteen times, as TwoBits wants of odd steps.
struct NibbleScales {
  static constexpr int bytes = 128, groups = 2;
  static constexpr bool minimum = false, super = true;
  static constexpr float unit = power_of_two(-24);
  static constexpr int zero = 0;
  uint4 words;
  SuperScale d;
  BytesOn1024 on_1024;

  __device__ void prepare(Hidden h) { on_1024.prepare(h); }
  __device__ void load(const std::uint8_t* p) { words = stream16(p); }
  __device__ void load_two(const std::uint8_t* p, bool second) {
    load(p);
    keep_two(words, second);
  }
  __host__ __device__ static constexpr int stored_unit(int step) { return step == 0 ? 1 : 16; }
  __device__ unsigned stored(int tile, int block, int step) const {
    return on_1024(word_of(words, tile) & (step == 0 ? 0x0f0f0f0fU : 0xf0f0f0f0U), block);
  }
  __device__ float2 scale(int tile, int block, int step) const {
    const unsigned w = word_of(words, tile) & (step == 0 ? 0x0f0f0f0fU : 0xf0f0f0f0U);
    return floats_of_pair(bytes_as_halves(w, block));
  }
};

struct TwoByteScales {
  static constexpr int bytes = 256, groups = 2;
  static constexpr bool minimum = false, super = true;
  static constexpr float unit = 1;
  static constexpr int zero = 128;
  uint4 words[2];
  SuperScale d;
  BytesOn1024 on_1024;

  __device__ void prepare(Hidden h) { on_1024.prepare(h); }
  __device__ void load(const std::uint8_t* p) {
    words[0] = stream16(p);
    words[1] = stream16(p + 128);
  }
  __device__ void load_two(const std::uint8_t* p, bool second) {
    load(p);
    keep_two(words[0], second);
    keep_two(words[1], second);
  }
  __host__ __device__ static constexpr int stored_unit(int) { return 1; }
  __device__ unsigned stored(int tile, int block, int step) const { return on_1024(word_of(words[block], tile), step); }
  __device__ float2 scale(int tile, int block, int step) const {
    return floats_of_pair(on_1024.less_128(word_of(words[block], tile), step));
  }
};

/// Six bits less 32, by what the units of ThreeBits's steps are of its unit.
struct SixBitScales {
  static constexpr int bytes = 192, groups = 2;
  static constexpr bool minimum = false, super = true;
  static constexpr float unit = 1;
  static constexpr int zero = 32;
  uint4 words;
  uint2 high;
  SuperScale d;
  BytesOn1024 on_1024;

  __device__ void prepare(Hidden h) { on_1024.prepare(h); }
  __device__ void load(const std::uint8_t* p) {
    words = stream16(p);
    // Half as far apart as the others.
    const std::uint32_t g = threadIdx.x % 32 / 4;
    high = __ldcs(reinterpret_cast<const uint2*>(p + 128 - 8 * g));
  }
  __device__ void load_two(const std::uint8_t* p, bool second) {
    load(p);
    keep_two(words, second);
    if (second) high.x = high.y;
  }
  __host__ __device__ static constexpr int stored_unit(int) { return 1; }
  __device__ unsigned stored(int tile, int block, int step) const {
    const unsigned w = word_of(words, tile), h = tile / 2 == 0 ? high.x : high.y;
    const unsigned upper = tile % 2 == 0 ? (step == 0 ? h : h >> 2) : (step == 0 ? h << 4 : h << 2);
    return on_1024(mask_or(upper, 0x30303030U, (step == 0 ? w : w >> 4) & 0x0f0f0f0fU), block);
  }
  __device__ float2 scale(int tile, int block, int step) const {
    const unsigned pair = stored(tile, block, step);
    return floats_of_pair(2 * block + step < 3 ? sub_halves(pair, 0x64206420U)                 // x - 1056
                                               : fma_halves(pair, 0x30002400U, 0xd820cc20U));  // that / (64, 8)
  }
};

/// Of weights that have none.
struct NoScales {
  static constexpr int bytes = 0, groups = 1;
  static constexpr bool minimum = false, super = false;
  static constexpr float unit = 1;
  __device__ void prepare(Hidden) {}
  __device__ void load(const std::uint8_t*) {}
  __device__ void load_two(const std::uint8_t*, bool) {}
};

}  // namespace llminfer::cuda
