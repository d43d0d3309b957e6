// Weight formats in the bytes of the file: 32 weights of a row to floats. What the formats mean: src/quant/. Rows start
// on even addresses; MXFP4's may be odd.
#pragma once

#include <cstdint>

#include <llminfer/weight_type.hpp>

#include "kernels/numbers.cuh"

namespace llminfer::cuda {

// Each format: unpack(row, k, n, out) gives weights k .. k + n - 1, k a multiple of 32. n is 32 but at the end of a row
// of plain floats.

struct FormatF32 {
  __device__ static void unpack(const std::uint8_t* row, int k, int n, float* out) {
    const float* w = reinterpret_cast<const float*>(row) + k;
#pragma unroll
    for (int i = 0; i < 32; ++i) out[i] = i < n ? w[i] : 0.0F;
  }
};
struct FormatF16 {
  __device__ static void unpack(const std::uint8_t* row, int k, int n, float* out) {
#pragma unroll
    for (int i = 0; i < 32; ++i) out[i] = i < n ? f16_at(row + 2 * (k + i)) : 0.0F;
  }
};
struct FormatBF16 {
  __device__ static void unpack(const std::uint8_t* row, int k, int n, float* out) {
#pragma unroll
    for (int i = 0; i < 32; ++i) out[i] = i < n ? bf16_at(row + 2 * (k + i)) : 0.0F;
  }
};

struct FormatQ4_0 {
  __device__ static void unpack(const std::uint8_t* row, int k, int, float* out) {
    const std::uint8_t* b = row + k / 32 * 18;
    const float d = f16_at(b);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int q = b[2 + i];
      out[i] = d * static_cast<float>((q & 15) - 8);
      out[i + 16] = d * static_cast<float>((q >> 4) - 8);
    }
  }
};
struct FormatQ4_1 {
  __device__ static void unpack(const std::uint8_t* row, int k, int, float* out) {
    const std::uint8_t* b = row + k / 32 * 20;
    const float d = f16_at(b), m = f16_at(b + 2);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int q = b[4 + i];
      out[i] = __fadd_rn(__fmul_rn(d, static_cast<float>(q & 15)), m);
      out[i + 16] = __fadd_rn(__fmul_rn(d, static_cast<float>(q >> 4)), m);
    }
  }
};

/// The fifth bits of a block, bit i of weight i.
__device__ inline unsigned fifth_bits(const std::uint8_t* p) {
  return p[0] | static_cast<unsigned>(p[1]) << 8 | static_cast<unsigned>(p[2]) << 16 |
         static_cast<unsigned>(p[3]) << 24;
}

struct FormatQ5_0 {
  __device__ static void unpack(const std::uint8_t* row, int k, int, float* out) {
    const std::uint8_t* b = row + k / 32 * 22;
    const float d = f16_at(b);
    const unsigned high = fifth_bits(b + 2);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int q = b[6 + i];
      out[i] = d * static_cast<float>(((q & 15) | static_cast<int>(high >> i & 1) << 4) - 16);
      out[i + 16] = d * static_cast<float>((q >> 4 | static_cast<int>(high >> (i + 16) & 1) << 4) - 16);
    }
  }
};
struct FormatQ5_1 {
  __device__ static void unpack(const std::uint8_t* row, int k, int, float* out) {
    const std::uint8_t* b = row + k / 32 * 24;
    const float d = f16_at(b), m = f16_at(b + 2);
    const unsigned high = fifth_bits(b + 4);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int q = b[8 + i];
      out[i] = __fadd_rn(__fmul_rn(d, static_cast<float>((q & 15) | static_cast<int>(high >> i & 1) << 4)), m);
      out[i + 16] =
          __fadd_rn(__fmul_rn(d, static_cast<float>(q >> 4 | static_cast<int>(high >> (i + 16) & 1) << 4)), m);
    }
  }
};
struct FormatQ8_0 {
  __device__ static void unpack(const std::uint8_t* row, int k, int, float* out) {
    const std::uint8_t* b = row + k / 32 * 34;
    const float d = f16_at(b);
#pragma unroll
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<signed char>(b[2 + i]));
  }
};

// The K formats: 256 weights a block; `g` is the group of 32 within it.

struct FormatQ2K {
  __device__ static void unpack(const std::uint8_t* row, int k, int, float* out) {
    const std::uint8_t* b = row + k / 256 * 84;
    const int g = k % 256 / 32;
    const float d = f16_at(b + 80), dmin = f16_at(b + 82);
    const std::uint8_t* q = b + 16 + g / 4 * 32;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int s = b[2 * g + h];
      const float scale = d * static_cast<float>(s & 15), least = dmin * static_cast<float>(s >> 4);
#pragma unroll
      for (int i = 16 * h; i < 16 * h + 16; ++i) {
        out[i] = __fsub_rn(__fmul_rn(scale, static_cast<float>(q[i] >> (2 * (g % 4)) & 3)), least);
      }
    }
  }
};
struct FormatQ3K {
  __device__ static void unpack(const std::uint8_t* row, int k, int, float* out) {
    const std::uint8_t* b = row + k / 256 * 110;
    const int g = k % 256 / 32;
    const float d = f16_at(b + 108);
    const std::uint8_t* q = b + 32 + g / 4 * 32;
    const std::uint8_t* scales = b + 96;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int group = 2 * g + h;
      const int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
      const int s = (low | (scales[8 + group % 4] >> (2 * (group / 4)) & 3) << 4) - 32;
      const float scale = d * static_cast<float>(s);
#pragma unroll
      for (int i = 16 * h; i < 16 * h + 16; ++i) {
        const int upper = b[i] >> g & 1;
        out[i] = scale * static_cast<float>((q[i] >> (2 * (g % 4)) & 3) - (upper != 0 ? 0 : 4));
      }
    }
  }
};

/// Scale and minimum of group g of a Q4_K or Q5_K block.
__device__ inline void scale_and_minimum(const std::uint8_t* s, int g, int& scale, int& minimum) {
  if (g < 4) {
    scale = s[g] & 63;
    minimum = s[g + 4] & 63;
  } else {
    scale = (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
    minimum = s[g + 4] >> 4 | s[g] >> 6 << 4;
  }
}

struct FormatQ4K {
  __device__ static void unpack(const std::uint8_t* row, int k, int, float* out) {
    const std::uint8_t* b = row + k / 256 * 144;
    const int g = k % 256 / 32;
    int s = 0, m = 0;
    scale_and_minimum(b + 4, g, s, m);
    const float scale = f16_at(b) * static_cast<float>(s), least = f16_at(b + 2) * static_cast<float>(m);
    const std::uint8_t* q = b + 16 + g / 2 * 32;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      out[i] = __fsub_rn(__fmul_rn(scale, static_cast<float>(q[i] >> (4 * (g % 2)) & 15)), least);
    }
  }
};
struct FormatQ5K {
  __device__ static void unpack(const std::uint8_t* row, int k, int, float* out) {
    const std::uint8_t* b = row + k / 256 * 176;
    const int g = k % 256 / 32;
    int s = 0, m = 0;
    scale_and_minimum(b + 4, g, s, m);
    const float scale = f16_at(b) * static_cast<float>(s), least = f16_at(b + 2) * static_cast<float>(m);
    const std::uint8_t* q = b + 48 + g / 2 * 32;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int level = (q[i] >> (4 * (g % 2)) & 15) | (b[16 + i] >> g & 1) << 4;
      out[i] = __fsub_rn(__fmul_rn(scale, static_cast<float>(level)), least);
    }
  }
};
struct FormatQ6K {
  __device__ static void unpack(const std::uint8_t* row, int k, int, float* out) {
    const std::uint8_t* b = row + k / 256 * 210;
    const int g = k % 256 / 32;
    const float d = f16_at(b + 208);
    const std::uint8_t* low = b + g / 4 * 64 + g % 2 * 32;
    const std::uint8_t* high = b + 128 + g / 4 * 32;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const float scale = d * static_cast<float>(static_cast<signed char>(b[192 + 2 * g + i / 16]));
      const int level = (low[i] >> (g % 4 / 2 * 4) & 15) | (high[i] >> (2 * (g % 4)) & 3) << 4;
      out[i] = scale * static_cast<float>(level - 32);
    }
  }
};

/// Sixteen levels of one byte each, chosen by a nibble.
__device__ inline int level_of(const unsigned (&levels)[4], int nibble) {
  const unsigned low = __byte_perm(levels[0], levels[1], static_cast<unsigned>(nibble & 7));
  const unsigned high = __byte_perm(levels[2], levels[3], static_cast<unsigned>(nibble & 7));
  return static_cast<signed char>((nibble < 8 ? low : high) & 0xff);
}
__device__ inline void iq4_levels(unsigned (&t)[4]) {
  t[0] = 0xbfad9881U;  // -127 -104 -83 -65
  t[1] = 0xf6eaddcfU;  // -49 -35 -22 -10
  t[2] = 0x26190d01U;  // 1 13 25 38
  t[3] = 0x71594535U;  // 53 69 89 113
}
__device__ inline void mxfp4_levels(unsigned (&t)[4]) {
  t[0] = 0x03020100U;
  t[1] = 0x0c080604U;
  t[2] = 0xfdfeff00U;
  t[3] = 0xf4f8fafcU;
}
__device__ inline void unpack_levels(const std::uint8_t* q, float d, const unsigned (&t)[4], float* out) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(level_of(t, q[i] & 15));
    out[i + 16] = d * static_cast<float>(level_of(t, q[i] >> 4));
  }
}

struct FormatIq4Nl {
  __device__ static void unpack(const std::uint8_t* row, int k, int, float* out) {
    const std::uint8_t* b = row + k / 32 * 18;
    unsigned t[4];
    iq4_levels(t);
    unpack_levels(b + 2, f16_at(b), t, out);
  }
};
struct FormatIq4Xs {
  __device__ static void unpack(const std::uint8_t* row, int k, int, float* out) {
    const std::uint8_t* b = row + k / 256 * 136;
    const int g = k % 256 / 32;
    const int scales_high = b[2] | b[3] << 8;
    const int s = ((b[4 + g / 2] >> (4 * (g % 2)) & 15) | (scales_high >> (2 * g) & 3) << 4) - 32;
    unsigned t[4];
    iq4_levels(t);
    unpack_levels(b + 8 + 16 * g, f16_at(b) * static_cast<float>(s), t, out);
  }
};
struct FormatMxfp4 {
  __device__ static void unpack(const std::uint8_t* row, int k, int, float* out) {
    const std::uint8_t* b = row + k / 32 * 17;
    const unsigned e = b[0];
    const float d = __uint_as_float(e < 2 ? 0x00200000U << e : (e - 1) << 23);  // 2^(e - 128)
    unsigned t[4];
    mxfp4_levels(t);
    unpack_levels(b + 1, d, t, out);
  }
};

/// Whether a row may end within 32 weights.
template <class Format>
constexpr bool may_be_partial = false;
template <>
inline constexpr bool may_be_partial<FormatF32> = true;
template <>
inline constexpr bool may_be_partial<FormatF16> = true;
template <>
inline constexpr bool may_be_partial<FormatBF16> = true;

/// Calls f with the format of `type`; false for a type without one.
template <class F>
bool with_format(WeightType type, F f) {
  switch (type) {
    case WeightType::f32:
      f(FormatF32{});
      return true;
    case WeightType::f16:
      f(FormatF16{});
      return true;
    case WeightType::bf16:
      f(FormatBF16{});
      return true;
    case WeightType::q4_0:
      f(FormatQ4_0{});
      return true;
    case WeightType::q4_1:
      f(FormatQ4_1{});
      return true;
    case WeightType::q5_0:
      f(FormatQ5_0{});
      return true;
    case WeightType::q5_1:
      f(FormatQ5_1{});
      return true;
    case WeightType::q8_0:
      f(FormatQ8_0{});
      return true;
    case WeightType::q2_k:
      f(FormatQ2K{});
      return true;
    case WeightType::q3_k:
      f(FormatQ3K{});
      return true;
    case WeightType::q4_k:
      f(FormatQ4K{});
      return true;
    case WeightType::q5_k:
      f(FormatQ5K{});
      return true;
    case WeightType::q6_k:
      f(FormatQ6K{});
      return true;
    case WeightType::iq4_nl:
      f(FormatIq4Nl{});
      return true;
    case WeightType::iq4_xs:
      f(FormatIq4Xs{});
      return true;
    case WeightType::mxfp4:
      f(FormatMxfp4{});
      return true;
    case WeightType::as_stored:
      break;
  }
  return false;
}

}  // namespace llminfer::cuda
