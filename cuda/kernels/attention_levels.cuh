// How a warp of attention_mma multiplies pages of q8_0 and q4_0: levels are operands of tensor instructions as they
// are, and no value is ever made of them.
//
// A half whose exponent is zero is its bits times 2^-24: level n at bit p of it is n 2^(p - 24), exactly. So a word of
// four bits a level becomes pairs of halves by one lop3 each, one of bytes by prmt. What is left undone is done once
// for many products:
//
//   16 times        upper four bits: 16 columns of queries are divided by 16, and of the output in the end
//   zero            8, and 128 of bytes without a sign: products begin at minus zero times the sum of the queries of
//                   32 columns; of values, one more product with a constant in place of levels sums it up
//   scale           of keys, multiplies what the 32 columns gave, in float; of values, the weights of softmax: 32
//                   columns have weights of their own, rounded to halves once more
//
// A load brings 16 bytes a lane, of two chunks of 16 keys. ldmatrix takes them from shared memory where the lane has
// put them, and gives lane 4 g + t word t of key g; across, 16 bits of two keys in a register. Loads of the next pages
// are under way meanwhile.
#pragma once

#include "kernels/attention_page_table.cuh"
#include "kernels/copy_async.cuh"
#include "kernels/kv_rows.cuh"
#include "kernels/mma.cuh"

namespace llminfer::cuda {

/// Two pairs of levels for one tensor instruction.
struct LevelPairs {
  unsigned low, high;
};

/// What a lane has of one chunk: 16 bytes of a row are `steps` times 16 columns.
template <KvType Type>
struct Levels;

template <>
struct Levels<KvType::q4_0> {
  static constexpr int steps = 2;  // as many groups of 32 columns are in a load
  static constexpr unsigned zero = 8;
  /// Of the level in a product by that of step 0.
  __host__ __device__ static constexpr float power(int step) { return step % 2 == 0 ? 1.0F : 16.0F; }
  __device__ static unsigned prepared(unsigned word) { return word; }
  /// Bytes 0 and 2 (`odd`: 1 and 3) of a word, the lower or upper four bits.
  __device__ static unsigned pair(unsigned word, int step, int odd) {
    return (odd == 0 ? word : word >> 8) & (step % 2 == 0 ? 0x000f000fU : 0x00f000f0U);
  }
};

template <>
struct Levels<KvType::q8_0> {
  static constexpr int steps = 1;
  static constexpr unsigned zero = 128;
  __host__ __device__ static constexpr float power(int /*step*/) { return 1.0F; }
  __device__ static unsigned prepared(unsigned word) { return word ^ 0x80808080U; }
  __device__ static unsigned pair(unsigned word, int /*step*/, int odd) {
    return prmt(word, 0, odd == 0 ? 0x4240U : 0x4341U);
  }
};

template <KvType Type, int D>
struct LevelPages {
  static constexpr KvType type = Type;
  static constexpr bool bf16 = false;
  static constexpr bool query_in_shared = D > 128 || D % 64 != 0;  // registers hold that much else
  static constexpr bool rests = false;                             // of weights: they are rounded again, with scales
  using Level = Levels<Type>;
  static constexpr int groups = (D + 31) / 32;  // of a scale
  static constexpr int steps = D / 16;          // of tensor instructions
  static constexpr int chunks = 2 * groups / Level::steps;
  static constexpr int loads = (chunks + 1) / 2;  // of a page
  static constexpr int scale_loads = 2 * groups;  // the same, one a lane
  /// Pages at once: those of four bits are too few bytes to be under way alone.
  static constexpr int pages = Type == KvType::q4_0 && D <= 128 ? 2 : 1;
  static constexpr int keys = kv_page * pages;
  static constexpr int turn = attention_warps * keys;
  /// Whether registers hold keys and values of the next turn at once. Else a turn's values come while its scores are
  /// made, keys of the next one behind that.
  static constexpr bool both = Type == KvType::q4_0 || D <= 128;
  static constexpr bool zeros_in_shared = D > 128;
  static constexpr int zeros_at = 512 * loads * pages + 2 * pages * 16 * scale_loads;
  static constexpr int room_bytes = zeros_at + (zeros_in_shared ? 32 * groups : 0);

  /// Weights of softmax are so many times larger, so that products with scales are not too small for halves: no scale
  /// of values up to 65504 makes them infinite.
  static constexpr float weight_exponent = Type == KvType::q4_0 ? 3 : 6;
  static constexpr float weight_unit = Type == KvType::q4_0 ? 0x1p-3F : 0x1p-6F;
  static constexpr float unit = 0x1p24F;  // of what comes out of products with levels
  static constexpr float output_unit = unit * weight_unit;

  PageTable table;
  std::uint8_t* room;
  int lane;
  const std::uint8_t* first[2];  // of page 0: the lane's 16 bytes of the first load, of keys and values
  int scales_from;               // these to 16 bytes of scales
  uint4 k[pages][loads], v[pages][loads];
  int next[pages];  // numbers of the next pages
  /// What products of 32 columns of keys begin at, of heads 2 t and 2 t + 1.
  float2 key_zero[zeros_in_shared ? 1 : groups];
  float zero[groups][4] = {};  // what is to be added to those of values

  __device__ LevelPages(const PageTable& pages_of, std::uint8_t* own)
      : table(pages_of), room(own), lane(static_cast<int>(threadIdx.x) % 32) {
    const int at = 32 * key_of(lane) + 16 * (lane / 16);
    first[0] = table.first(false) + at;
    first[1] = table.first(true) + at;
    scales_from = kv_scales_at<Type>(groups) + 16 * lane - at;
  }

  __device__ void start(int key) {
    if (key >= table.end()) return;
    look_up(key);
    fetch(k, false);
    commit_copies();
    if constexpr (!both) return;
    fetch(v, true);
    commit_copies();
    look_up(key + turn);
  }

  /// What lane t multiplies in a step: two pairs.
  __device__ static float4 query_of(const float* row, int step, int t) {
    const float4 q = *reinterpret_cast<const float4*>(row + 16 * step + 4 * t);
    return make_float4(q.x, q.z, q.y, q.w);
  }
  __device__ static constexpr float query_power(int step) { return 1.0F / Level::power(step); }
  /// Key of row g (`upper`: g + 8) of a product of 16 keys: a lane's scales are neighbours.
  __device__ static int key_at(int g, int upper) { return 2 * g + upper; }
  /// Column of row g (`upper`: g + 8) of product `step` of values.
  __device__ static int column(int step, int upper, int g) { return 16 * step + 2 * g + upper; }
  __device__ float output(const float (&o)[4], int step, int e) const {
    return fmaf(o[e], 1.0F / Level::power(step), zero[step / 2][e]);
  }
  __device__ void fade(const float (&by)[2]) {
#pragma unroll
    for (auto& sum : zero) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[e] *= by[e % 2];
    }
  }

  /// Once the queries are there.
  template <class Query>
  __device__ void meet(const Query& q) {
#pragma unroll
    for (int x = 0; x < groups; ++x) {
      float sum[4] = {};
#pragma unroll
      for (int step = 2 * x; step < min(2 * x + 2, steps); ++step) {
        const unsigned minus = minus_zero(step);
        q.multiply(step, {minus, minus, minus, minus}, sum);
      }
      const float2 found = make_float2(sum[0], sum[1]);  // the same in lanes of the same t
      if constexpr (!zeros_in_shared) {
        key_zero[x] = found;
      } else if (lane < 4) {
        own_zeros()[4 * x] = found;
      }
    }
  }

  template <class Query>
  __device__ void multiply_keys(const Query& q, int key, float (*s)[4]) {
    place(k);
    unsigned scale[pages][groups];  // of keys 2 g and 2 g + 1
#pragma unroll
    for (int page = 0; page < pages; ++page) read_scales<groups>(scale[page], false, page, lane / 4);
    if constexpr (!both) {
      look_up(key);
      fetch(v, true);
    } else if (key + turn < table.end()) {
      __syncwarp();  // the scales that are read lie where the next ones go
      fetch(k, false);
    }
    commit_copies();
#pragma unroll
    for (int page = 0; page < pages; ++page) {
      float by[2 * groups];
#pragma unroll
      for (int i = 0; i < groups; ++i) {
        const float2 two = floats_of_pair(scale[page][i]);
        by[2 * i] = two.x, by[2 * i + 1] = two.y;
      }
#pragma unroll
      for (int load = 0; load < loads; ++load) {
        unsigned b[4];  // of a chunk 8 keys and 8 more, of the next one
        load_matrices(b, place_of(page, load));
        multiply_two_chunks(q, b, load, by, s[page]);
      }
    }
  }

  __device__ void add_values(const uint2* weights, const uint2* /*rests_of*/, int key, float (*o)[4]) {
    place(v);
    uint2 scale[pages][groups];
#pragma unroll
    for (int page = 0; page < pages; ++page) {
      unsigned words[2 * groups];  // of keys 4 t to 4 t + 3
      read_scales<2 * groups>(words, true, page, lane % 4);
#pragma unroll
      for (int x = 0; x < groups; ++x) {
        scale[page][x].x = two_halves(words, x, x + 2 * groups);
        scale[page][x].y = two_halves(words, x + groups, x + 3 * groups);
      }
      if (key + kv_page * (page + 1) > table.end()) without_those_behind(scale[page], key + kv_page * page);
    }
    if constexpr (!both) {
      if (key + turn < table.end()) {
        look_up(key + turn);
        fetch(k, false);
      }
    } else if (key + turn < table.end()) {
      __syncwarp();
      fetch(v, true);
      look_up(key + 2 * turn);
    }
    commit_copies();
#pragma unroll
    for (int page = 0; page < pages; ++page) {
#pragma unroll
      for (int load = 0; load < loads; ++load) {
        unsigned b[4];
        load_matrices_across(b, place_of(page, load));
#pragma unroll
        for (int i = 0; i < Level::steps; ++i) {
          const int x = load * Level::steps + i;
          if (x < groups) add_group(weights[page], scale[page][x], b, x, o);
        }
      }
    }
  }

 private:
  /// Minus the zero in place of two levels of a step.
  __device__ static constexpr unsigned minus_zero(int step) {
    return 0x80008000U | Level::zero * (Level::power(step) == 1.0F ? 1U : 16U) * 0x10001U;
  }
  /// The halves `first` and `second` of some words.
  __device__ static unsigned two_halves(const unsigned* words, int first, int second) {
    return prmt(words[first / 2], words[second / 2],
                (first % 2 == 0 ? 0x10U : 0x32U) | (second % 2 == 0 ? 0x5400U : 0x7600U));
  }

  __device__ float2* own_zeros() const { return reinterpret_cast<float2*>(room + zeros_at) + lane % 4; }
  __device__ float2 zero_of_keys(int x) const {
    if constexpr (zeros_in_shared) {
      return own_zeros()[4 * x];
    } else {
      return key_zero[x];
    }
  }
  __device__ void look_up(int key) {
#pragma unroll
    for (int page = 0; page < pages; ++page) next[page] = table.page_of(key, static_cast<unsigned>(page));
  }
  /// Key of a page that is row `lane % 8` of the matrix `lane / 8 % 2`.
  __device__ static int key_of(int lane) { return (lane & 7) * 2 + (lane >> 3 & 1); }

  __device__ void fetch(uint4 (&to)[pages][loads], bool values) {
    const std::uint8_t* from[pages];
#pragma unroll
    for (int page = 0; page < pages; ++page) {
      from[page] = table.in_page(values, next[page], first[values]);
#pragma unroll
      for (int n = 0; n < loads; ++n) {
        if (2 * n + 1 < chunks) {
          to[page][n] = *reinterpret_cast<const uint4*>(from[page] + 512 * n);
        } else {  // the last one alone: its rows are neighbours
          to[page][n] = make_uint4(0, 0, 0, 0);
          if (lane < 16) to[page][n] = *reinterpret_cast<const uint4*>(from[page] + 512 * n - 16 * key_of(lane));
        }
      }
    }
    if (lane >= scale_loads) return;
#pragma unroll
    for (int page = 0; page < pages; ++page) {
      copy_async_16(scales(values, page) + 16 * lane, from[page] + scales_from);
    }
  }
  __device__ std::uint8_t* scales(bool values, int page) const {
    return room + 512 * loads * pages + ((values ? pages : 0) + page) * 16 * scale_loads;
  }
  /// Where a lane puts 16 bytes of a load, and names a row to ldmatrix.
  __device__ std::uint8_t* place_of(int page, int load) const { return room + 16 * lane + 512 * (page * loads + load); }
  /// What was fetched, and copies of scales, for all lanes.
  __device__ void place(const uint4 (&from)[pages][loads]) const {
    __syncwarp();
#pragma unroll
    for (int page = 0; page < pages; ++page) {
#pragma unroll
      for (int n = 0; n < loads; ++n) *reinterpret_cast<uint4*>(place_of(page, n)) = from[page][n];
    }
    wait_for_copies<both ? 1 : 0>();  // those behind may be under way
    __syncwarp();
  }
  /// As many words of scales as that, the part `part` of them.
  template <int Words>
  __device__ void read_scales(unsigned (&words)[Words], bool values, int page, int part) const {
    const std::uint8_t* from = scales(values, page) + part * (4 * Words);
    constexpr int at_once = Words % 4 == 0 ? 4 : Words % 2 == 0 ? 2 : 1;
#pragma unroll
    for (int i = 0; i < Words; i += at_once) {
      if constexpr (at_once == 4) {
        const uint4 w = *reinterpret_cast<const uint4*>(from + 4 * i);
        words[i] = w.x, words[i + 1] = w.y, words[i + 2] = w.z, words[i + 3] = w.w;
      } else if constexpr (at_once == 2) {
        const uint2 w = *reinterpret_cast<const uint2*>(from + 4 * i);
        words[i] = w.x, words[i + 1] = w.y;
      } else {
        words[i] = *reinterpret_cast<const unsigned*>(from + 4 * i);
      }
    }
  }
  /// What stands behind the last key is perhaps no number.
  __device__ void without_those_behind(uint2 (&scale)[groups], int page_key) const {
    const int there = table.end() - page_key - lane % 4 * 4;
    const unsigned first = (there > 0 ? 0xffffU : 0U) | (there > 2 ? 0xffff0000U : 0U),
                   second = (there > 1 ? 0xffffU : 0U) | (there > 3 ? 0xffff0000U : 0U);
#pragma unroll
    for (uint2& pairs : scale) {
      pairs.x &= first;
      pairs.y &= second;
    }
  }

  /// Scores of a page's 16 keys by the columns of two chunks.
  template <class Query>
  __device__ void multiply_two_chunks(const Query& q, const unsigned (&b)[4], int load,
                                      const float (&scale)[2 * groups], float (&s)[4]) const {
#pragma unroll
    for (int i = 0; i < Level::steps; ++i) {
      const int x = load * Level::steps + i;
      if (x >= groups) break;
      float sum[4];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int step = 2 * x + h, at = 2 * (Level::steps == 2 ? i : h);
        if (step >= steps) break;
        const unsigned lower = Level::prepared(b[at]), upper = Level::prepared(b[at + 1]);
        const unsigned of_keys[4] = {Level::pair(lower, step, 0), Level::pair(upper, step, 0),
                                     Level::pair(lower, step, 1), Level::pair(upper, step, 1)};
        if (h == 0) {
          q.multiply_on(step, of_keys, sum, zero_of_keys(x));
        } else {
          q.multiply(step, of_keys, sum);
        }
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float by = scale[e / 2 * groups + x];
        s[e] = x == 0 ? sum[e] * by : fmaf(sum[e], by, s[e]);
      }
    }
  }

  /// Output of 32 columns by a page's values.
  __device__ void add_group(uint2 weights, uint2 scale, const unsigned (&b)[4], int x, float (*o)[4]) {
    const unsigned first = mul_halves(weights.x, scale.x), second = mul_halves(weights.y, scale.y);
    constexpr unsigned minus = 0x80008000U | Level::zero * 0x10001U;
    multiply_add(zero[x], {minus, minus, minus, minus}, first, second);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int step = 2 * x + h, at = 2 * (Level::steps == 2 ? x % 2 : h);
      if (step >= steps) break;
      const unsigned lower = Level::prepared(b[at]), upper = Level::prepared(b[at + 1]);
      multiply_add(o[step],
                   {Level::pair(lower, step, 0), Level::pair(lower, step, 1), Level::pair(upper, step, 0),
                    Level::pair(upper, step, 1)},
                   first, second);
    }
  }
};

}  // namespace llminfer::cuda
