// How a warp of attention_mma multiplies pages of keys and values, format by format. Nothing but the tail of a head's
// columns and levels goes through shared memory, each warp's own.
//
//   PlainPages      f16 and bf16: from global memory to registers, 16 bytes a lane. Lane 4 g + t takes 8 neighbouring
//                   columns of key g: the columns of a head may be multiplied in any order, and Q is laid out to match.
//                   Of values it takes 8 columns of each of its four keys and puts pairs together with prmt; column
//                   8 g + j belongs to product j. What is left behind a multiple of 32 columns of keys is exchanged
//                   between lanes, behind 64 columns of values it takes ldmatrix across.
//   LevelPages      q8_0 and q4_0: kernels/attention_levels.cuh.
#pragma once

#include "kernels/attention_levels.cuh"
#include "kernels/attention_math.cuh"
#include "kernels/attention_page_table.cuh"

namespace llminfer::cuda {

/// The halves at `index` of two words' worth of two keys, side by side.
__device__ inline unsigned pair_at(unsigned first, unsigned second, int index) {
  return __byte_perm(first, second, index == 0 ? 0x5410 : 0x7632);
}

template <KvType Type, int D>
struct PlainPages {
  static constexpr KvType type = Type;
  static constexpr bool bf16 = in_bf16(Type);
  static constexpr bool query_in_shared = D > 128;
  static constexpr bool rests = true;   // of weights: values are exact
  static constexpr int keys = kv_page;  // at once
  static constexpr int tail = D % 64;   // columns of values
  static constexpr int tail_stride = 2 * tail + 16, tail_loads = tail / 16;
  static constexpr int room_bytes = tail == 0 ? 16 : kv_page * tail_stride;
  static_assert(tail % 16 == 0);

  static constexpr float weight_exponent = 0, weight_unit = 1, unit = 1, output_unit = 1;

  PageTable table;
  std::uint8_t* room;
  uint4 last_values[tail_loads + 1];

  __device__ PlainPages(const PageTable& pages, std::uint8_t* own) : table(pages), room(own) {}
  __device__ void start(int /*key*/) {}
  template <class Query>
  __device__ void meet(const Query& /*q*/) {}

  /// What lane t multiplies in a step: two pairs.
  __device__ static float4 query_of(const float* row, int step, int t) {
    const int first =
        step * 16 + 16 < D || D % 32 == 0 ? step / 2 * 32 + 8 * t + step % 2 * 4 : step * 16 + t % 2 * 8 + t / 2 * 4;
    return *reinterpret_cast<const float4*>(row + first);
  }
  __device__ static constexpr float query_power(int /*step*/) { return 1; }
  /// Key of row g (`upper`: g + 8) of a product of 16 keys.
  __device__ static int key_at(int g, int upper) { return g + 8 * upper; }
  __device__ static float output(const float (&o)[4], int /*step*/, int e) { return o[e]; }
  __device__ static void fade(const float (&/*by*/)[2]) {}
  /// Column of row g (`upper`: g + 8) of product `step` of values.
  __device__ static int column(int step, int upper, int g) {
    if (step >= D / 64 * 4) return 16 * step + g + 8 * upper;
    return step / 4 * 64 + 8 * g + step % 4 * 2 + upper;
  }

  template <class Query>
  __device__ void multiply_keys(const Query& q, int key, float (*s)[4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const int page = table.page_of(key);
    fetch_last_values(table.block(true, page), key, lane);
    const std::uint8_t* block = table.block(false, page);
    uint4 last{};
    if constexpr (D % 32 != 0) {  // lanes 0 and 1 of four bring key g's, 2 and 3 those of g + 8
      last = *reinterpret_cast<const uint4*>(block + 2 * D * (g + t / 2 * 8) + 2 * (D - 16 + t % 2 * 8));
    }
#pragma unroll
    for (int b = 0; b < D / 32; ++b) {
      const std::uint8_t* at = block + 2 * D * g + 2 * (32 * b + 8 * t);
      const uint4 k = *reinterpret_cast<const uint4*>(at), upper = *reinterpret_cast<const uint4*>(at + 2 * D * 8);
      q.multiply(2 * b, {k.x, upper.x, k.y, upper.y}, s[0]);
      q.multiply(2 * b + 1, {k.z, upper.z, k.w, upper.w}, s[0]);
    }
    if constexpr (D % 32 != 0) {
      const bool lower = t < 2;
      const unsigned x = __shfl_xor_sync(0xffffffffU, lower ? last.z : last.x, 2),
                     y = __shfl_xor_sync(0xffffffffU, lower ? last.w : last.y, 2);
      q.multiply(D / 16 - 1, {lower ? last.x : x, lower ? x : last.z, lower ? last.y : y, lower ? y : last.w}, s[0]);
    }
  }

  __device__ void add_values(const uint2* weights, const uint2* rests_of, int key, float (*o)[4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const std::uint8_t* block = table.block(true, table.page_of(key));
#pragma unroll
    for (int b = 0; b < D / 64; ++b) {
      unsigned v[4][4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int row = 2 * t + k % 2 + k / 2 * 8;
        uint4 x = make_uint4(0, 0, 0, 0);
        if (key + row < table.end()) x = *reinterpret_cast<const uint4*>(block + 2 * D * row + 2 * (64 * b + 8 * g));
        v[k][0] = x.x, v[k][1] = x.y, v[k][2] = x.z, v[k][3] = x.w;
      }
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        const unsigned low[2] = {pair_at(v[0][j / 2], v[1][j / 2], 0), pair_at(v[0][j / 2], v[1][j / 2], 1)},
                       high[2] = {pair_at(v[2][j / 2], v[3][j / 2], 0), pair_at(v[2][j / 2], v[3][j / 2], 1)};
        add_step({low[0], low[1], high[0], high[1]}, weights[0], rests_of[0], o[4 * b + j / 2]);
      }
    }
    if constexpr (tail != 0) {
      __syncwarp();
#pragma unroll
      for (int n = 0; n < tail_loads; ++n) {
        *reinterpret_cast<uint4*>(room + lane % 16 * tail_stride + 16 * (lane / 16 + 2 * n)) = last_values[n];
      }
      __syncwarp();
      const std::uint8_t* row = room + (lane / 8 % 2 * 8 + lane % 8) * tail_stride + lane / 16 * 16;
#pragma unroll
      for (int step = 0; step < tail / 16; ++step) {
        unsigned b[4];
        load_matrices_across(b, row + 32 * step);
        add_step({b[0], b[2], b[1], b[3]}, weights[0], rests_of[0], o[D / 64 * 4 + step]);
      }
    }
  }

 private:
  /// Output of 16 columns by the values of a page.
  __device__ static void add_step(const unsigned (&values)[4], uint2 weights, uint2 rests_of, float (&o)[4]) {
    multiply_add_as<bf16>(o, values, rests_of.x, rests_of.y);
    multiply_add_as<bf16>(o, values, weights.x, weights.y);
  }
  /// Columns behind the last multiple of 64. What stands behind the last key is perhaps no number.
  __device__ void fetch_last_values(const std::uint8_t* block, int key, int lane) {
#pragma unroll
    for (int n = 0; n < tail_loads; ++n) {
      const int row = lane % 16, column = D - tail + 8 * (lane / 16 + 2 * n);
      last_values[n] = make_uint4(0, 0, 0, 0);
      if (key + row < table.end()) last_values[n] = *reinterpret_cast<const uint4*>(block + 2 * D * row + 2 * column);
    }
  }
};

template <KvType Type, int D>
struct PagesOf {
  using type = LevelPages<Type, D>;
};
template <int D>
struct PagesOf<KvType::f16, D> {
  using type = PlainPages<KvType::f16, D>;
};
template <int D>
struct PagesOf<KvType::bf16, D> {
  using type = PlainPages<KvType::bf16, D>;
};

}  // namespace llminfer::cuda
