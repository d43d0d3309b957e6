// What the kernels of products do with a chunk of weights and the activations of its columns.
#pragma once

#include "kernels/arrival.cuh"
#include "kernels/cluster.cuh"
#include "kernels/elementwise.cuh"
#include "kernels/fragments.cuh"
#include "kernels/matmul_quant.h"
#include "kernels/matmul_scales.cuh"
#include "kernels/norm_add.cuh"

namespace llminfer::cuda {

/// A format: how its chunks (host/repack.h) are made up.
template <class LevelsType, class ScalesType, int PieceTail = 0>
struct WeightFormat {
  using Levels = LevelsType;
  using Scales = ScalesType;
  static constexpr int chunk_bytes = Levels::bytes + Scales::bytes;
  static constexpr int piece_chunks = Scales::super ? 4 : 1;
  static constexpr int piece_bytes = piece_chunks * chunk_bytes + (Scales::super ? 128 + PieceTail : 0);
  /// Minima of whole numbers, behind a piece: of groups of 32 columns or of 16.
  static constexpr bool minima = PieceTail != 0;
  static constexpr bool floats = Levels::bytes == 8192;
  /// Whether a warp always takes twice 64 rows: where that spares instructions, or few bytes would be under way.
  static constexpr bool wide = Scales::groups == 2 || (Scales::super && !minima && Levels::zero == 128);
  /// Whether the levels of a turn are asked for before the first of them is used, which takes registers. Without it
  /// some formats have too little under way (tests/ptxsim/machine_code/in_flight.py).
  __host__ __device__ static constexpr bool loads_first(int groups) {
    return narrow || Levels::bytes == 1024 || (Levels::bytes == 2560 && Levels::zero == 0 && groups > 1);
  }
  /// Whether four warps make a block: more of them find room for their registers then.
  static constexpr bool narrow = Levels::bytes == 1536 || (Scales::super && !minima && Levels::zero == 128);
  /// Blocks that a multiprocessor must have room for: as many as leave registers for all loads of a turn.
  static constexpr int blocks(int groups) {
    if (narrow) return 3;
    return groups == 1 || Levels::bytes == 1024 ? 2 : 1;
  }
  /// Whether sums of activations are needed of each block of 32 columns, or of 16.
  static constexpr bool sums = Levels::zero != 0 || Scales::minimum;
  /// What a sum is multiplied by in the end.
  static constexpr float first = 1 / (Levels::unit.first * Scales::unit);
  static constexpr float second = 1 / (Levels::unit.second * Scales::unit);

  /// From the first of a group of 64 rows.
  __device__ static std::int64_t at(int chunk) {
    return static_cast<std::int64_t>(chunk / piece_chunks) * piece_bytes + chunk % piece_chunks * chunk_bytes;
  }
};

template <class Format>
struct Chunk {
  typename Format::Levels levels;
  typename Format::Scales scales;

  __device__ void prepare(Hidden h) {
    levels.prepare(h);
    scales.prepare(h);
  }
  /// `at`: of the lane. Before other loads are waited for, and after.
  __device__ void load_most(const std::uint8_t* at) {
    if constexpr (requires { levels.load_most(at); }) {
      levels.load_most(at);
    } else {
      levels.load(at);
    }
  }
  __device__ void load_rest(const std::uint8_t* at) {
    if constexpr (requires { levels.load_rest(at); }) levels.load_rest(at);
  }
  /// `scales_at` and `tail`: of the lane's rows.
  __device__ void load_scales(const std::uint8_t* scales_at, const std::uint8_t* tail) {
    scales.load(scales_at);
    if constexpr (Format::Scales::super) scales.d.load(tail);
  }
};

/// Activations of 32 columns: for each tile of 8 rows the lane's fragment, and of rows 2 t and 2 t + 1 the sums of all
/// columns (x and y), or of the first and last 16 columns of the one (x, y) and the other (z, w).
template <int Tiles>
struct BlockInput {
  uint4 x[Tiles];
  uint4 rest[Tiles];  ///< for weights that are floats: what halves left of the values
  float4 sums[Tiles];
};

/// The lane's part of four tiles of 16 rows of weights by tiles of 8 rows of activations.
template <int Tiles>
using Sums = float[4][Tiles][4];

__device__ inline float times_alone(float a, float b) {
  float r;
  asm("fma.rn.f32 %0, %1, %2, 0f80000000;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

template <class Levels>
__host__ __device__ constexpr Unit unit_at(int step) {
  if constexpr (requires { Levels::unit_of(step); }) return Levels::unit_of(step);
  return Levels::unit;
}

/// Where sums of products begin: at minus the zero level. `step`: of the chunk.
template <class Format>
__device__ void begin(float (&c)[4], float even, float odd, int step) {
  const Unit unit = unit_at<typename Format::Levels>(step);
  constexpr float zero = Format::Scales::minimum ? -1.0F : Format::Levels::zero;
  c[0] = -zero * unit.first * even;
  c[1] = -zero * unit.first * odd;
  if (unit.first != unit.second) {
    c[2] = -zero * unit.second * even;
    c[3] = -zero * unit.second * odd;
  } else {
    // The same, which the compiler must not find out: it would copy them before each product.
    c[2] = times_alone(even, -zero * unit.second);
    c[3] = times_alone(odd, -zero * unit.second);
  }
}

__device__ inline void add_scaled(float (&sum)[4], float2 scale, const float (&product)[4]) {
#pragma unroll
  for (int e = 0; e < 4; ++e) sum[e] += (e < 2 ? scale.x : scale.y) * product[e];
}

__device__ inline float2 times(float2 a, float2 b) { return make_float2(a.x * b.x, a.y * b.y); }

/// Formats with a scale for each 32 columns.
template <class Format, int Tiles>
__device__ void add_whole(const Chunk<Format>& w, int block, const BlockInput<Tiles>& in, Sums<Tiles>& sum) {
  constexpr bool minimum = Format::Scales::minimum;
  float c[Tiles][4] = {};
  if constexpr (Format::sums) {
#pragma unroll
    for (int n = 0; n < Tiles; ++n) begin<Format>(c[n], in.sums[n].x, in.sums[n].y, 2 * block);
  }
#pragma unroll
  for (int tile = 0; tile < 4; ++tile) {
    unsigned low[4], high[4];
    w.levels.unpack(tile, 2 * block, low);
    w.levels.unpack(tile, 2 * block + 1, high);
    float2 d = w.scales.scale(tile, block, 0);
    if constexpr (Format::Scales::super) d = times(d, w.scales.d.of(tile));
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
      float product[4] = {};
      if constexpr (minimum) {
        multiply(product, low, in.x[n].x, in.x[n].y, product);
      } else {
        multiply(product, low, in.x[n].x, in.x[n].y, c[n]);
      }
      multiply(product, high, in.x[n].z, in.x[n].w, product);
      add_scaled(sum[tile][n], d, product);
      if constexpr (minimum) add_scaled(sum[tile][n], w.scales.minimum_of(tile, block), c[n]);
    }
  }
}

/// Formats with a scale for each 16 columns. With `Part` sums are left without the scale of the piece.
template <class Format, int Tiles, int Step, bool Part>
__device__ void add_step(const Chunk<Format>& w, int block, const BlockInput<Tiles>& in, Sums<Tiles>& sum) {
  float c[Tiles][4] = {};
  if constexpr (Format::sums) {
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
      begin<Format>(c[n], Step == 0 ? in.sums[n].x : in.sums[n].y, Step == 0 ? in.sums[n].z : in.sums[n].w,
                    2 * block + Step);
    }
  }
#pragma unroll
  for (int tile = 0; tile < 4; ++tile) {
    unsigned a[4];
    w.levels.unpack(tile, 2 * block + Step, a);
    float2 d = w.scales.scale(tile, block, Step);
    if constexpr (!Part) d = times(d, w.scales.d.of(tile));
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
      float product[4];
      multiply(product, a, Step == 0 ? in.x[n].x : in.x[n].z, Step == 0 ? in.x[n].y : in.x[n].w, c[n]);
      add_scaled(sum[tile][n], d, product);
    }
  }
}

/// Halves and bfloat16: activations are sums of two of those, so that what comes out is nearly a float's product.
template <class Format, int Tiles>
__device__ void add_floats(const Chunk<Format>& w, int block, const BlockInput<Tiles>& in, Sums<Tiles>& sum) {
#pragma unroll
  for (int n = 0; n < Tiles; ++n) {
    const unsigned x[4] = {in.x[n].x, in.x[n].y, in.x[n].z, in.x[n].w};
    const unsigned y[4] = {in.rest[n].x, in.rest[n].y, in.rest[n].z, in.rest[n].w};
    unsigned upper[4], rest[4];
    if constexpr (Format::Levels::bfloat16) {
#pragma unroll
      for (int i = 0; i < 4; ++i) split_bf16(x[i], y[i], upper[i], rest[i]);
    }
#pragma unroll
    for (int tile = 0; tile < 4; ++tile) {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        unsigned a[4];
        w.levels.unpack(tile, 2 * block + step, a);
        float(&to)[4] = sum[tile][n];
        if constexpr (Format::Levels::bfloat16) {
          multiply_bf16(to, a, upper[2 * step], upper[2 * step + 1], to);
          multiply_bf16(to, a, rest[2 * step], rest[2 * step + 1], to);
        } else {
          multiply(to, a, x[2 * step], x[2 * step + 1], to);
          multiply(to, a, y[2 * step], y[2 * step + 1], to);
        }
      }
    }
  }
}

/// `input_of(block)`: the activations of a block of the chunk.
template <class Format, int Tiles, class InputOf>
__device__ void add_chunk(const Chunk<Format>& w, const InputOf& input_of, Sums<Tiles>& sum) {
  // With one tile there are registers enough to multiply by the scale of the piece once.
  constexpr bool part = Format::Scales::groups == 2 && Tiles == 1;
  Sums<Tiles> parts = {};
#pragma unroll
  for (int block = 0; block < 2; ++block) {
    const BlockInput<Tiles>& in = input_of(block);
    if constexpr (Format::floats) {
      add_floats<Format, Tiles>(w, block, in, sum);
    } else if constexpr (Format::Scales::groups == 2) {
      add_step<Format, Tiles, 0, part>(w, block, in, part ? parts : sum);
      add_step<Format, Tiles, 1, part>(w, block, in, part ? parts : sum);
    } else {
      add_whole<Format, Tiles>(w, block, in, sum);
    }
  }
  if constexpr (part) {
#pragma unroll
    for (int tile = 0; tile < 4; ++tile) add_scaled(sum[tile][0], w.scales.d.of(tile), parts[tile][0]);
  }
}

/// Two halves whose sum is a float but for 2^-22 of it.
struct SplitPair {
  unsigned upper, rest;
};
__device__ inline SplitPair split_pair(float2 v) {
  SplitPair s;
  s.upper = pair_of_halves(v.x, v.y);
  const float2 back = floats_of_pair(s.upper);
  s.rest = pair_of_halves(v.x - back.x, v.y - back.y);
  return s;
}

/// Sums of activations of a piece as B: rows of activations are columns, groups of weights what is summed over. Those
/// of 32 columns: eight upper parts, then eight rests. Those of 16: sixteen upper parts, then as many rests.
struct GroupSums {
  SplitPair pair[2];
  /// `sums`: of the row and the first block of the piece; lane 4 g + t of row g. `pad`: floats between each 32 of them.
  template <class Format>
  __device__ void load(const float* sums, int t, bool there, int pad = 0) {
    if constexpr (Format::Scales::groups == 2) {
      // Both sums of a block are neighbours, those of blocks 16 floats apart.
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int b = t + 4 * i;
        const float2 v = there ? *reinterpret_cast<const float2*>(sums + 16 * b + b / 2 * pad) : make_float2(0, 0);
        pair[i] = split_pair(v);
      }
    } else {
      const int at = 16 * t + t / 2 * pad;
      pair[0] = split_pair(there ? make_float2(sums[at], sums[at + 8]) : make_float2(0, 0));
    }
  }
};

/// Minima of a piece of a tile of 16 rows as A. `word`: of the lane; `dmin`: of rows g and g + 8, by what the sums'
/// unit is (see WeightFormat::first).
template <class Format>
struct TileMinima {
  static constexpr bool nibbles = Format::Scales::groups == 2;
  static constexpr Unit unit = nibbles ? unit_of_places(0, 4) : unit_of_places(0, 0);
  unsigned a[4];
  float2 d;

  __device__ TileMinima(unsigned word, float2 dmin, float first, float second)
      : d(times(dmin, make_float2(-1 / (unit.first * first), -1 / (unit.second * second)))) {
    const unsigned v = word >> 8;
    if constexpr (nibbles) {
      a[0] = word & 0x000f000fU;
      a[1] = word & 0x00f000f0U;
      a[2] = v & 0x000f000fU;
      a[3] = v & 0x00f000f0U;
    } else {
      a[0] = a[2] = bytes_as_halves(word, 0);
      a[1] = a[3] = bytes_as_halves(word, 1);
    }
  }
  __device__ void subtract(const GroupSums& sums, float (&sum)[4]) const {
    float product[4] = {};
    if constexpr (nibbles) {
      multiply(product, a, sums.pair[0].upper, sums.pair[1].upper, product);
      multiply(product, a, sums.pair[0].rest, sums.pair[1].rest, product);
    } else {
      multiply(product, a, sums.pair[0].upper, sums.pair[0].rest, product);
    }
    add_scaled(sum, d, product);
  }
};

/// Subtracts the minima of a piece. `words`: of the lane and four tiles; `dmin`: of rows g and g + 8 of them.
template <class Format, int Tiles>
__device__ void subtract_minima(const uint4& words, const SuperScale& dmin, const GroupSums (&sums)[Tiles],
                                Sums<Tiles>& sum) {
#pragma unroll
  for (int tile = 0; tile < 4; ++tile) {
    const TileMinima<Format> minima(word_of(words, tile), dmin.of(tile), Format::first, Format::second);
#pragma unroll
    for (int n = 0; n < Tiles; ++n) minima.subtract(sums[n], sum[tile][n]);
  }
}

/// The weight that a block works on, and the block's number in it.
struct BlockTarget {
  MatMulTarget weight;
  int block;
};
/// Of block `number` of blocks of `rows` rows of weights.
__device__ inline BlockTarget target_of(const MatMulQuantParams& p, int rows, unsigned number) {
  BlockTarget b{p.targets[0], static_cast<int>(number)};
  if (p.end.gated) return b;
#pragma unroll
  for (int n = 1; n < matmul_max_targets; ++n) {
    const int blocks = (b.weight.columns_out + rows - 1) / rows;
    if (n < p.count && b.block >= blocks) {
      b.block -= blocks;
      b.weight = p.targets[n];
    } else {
      break;  // later ones are further on still
    }
  }
  return b;
}

/// Bytes from the first group of 64 rows of a target to group `h` of the `groups` that a block makes: of gated ones
/// half are the second target's. Where there is no group any more: the last one again.
__device__ inline std::int64_t group_at(const MatMulQuantParams& p, const BlockTarget& target, int groups, int h,
                                        std::int64_t group_bytes) {
  const int last = (target.weight.columns_out + 63) / 64 - 1;
  if (!p.end.gated) return min(target.block * groups + h, last) * group_bytes;
  const int half = groups > 1 ? groups / 2 : 1;
  const std::int64_t to = h < half ? 0 : p.targets[1].weight - p.targets[0].weight;
  return to + min(target.block * half + h % half, last) * group_bytes;
}

/// A row of results: of what row of activations it comes, where it goes, where biases of its expert begin.
struct ResultRow {
  int from, to;
  std::int64_t bias;
};
__device__ inline ResultRow plain_row(int row) { return {row, row, 0}; }

/// No product and sum is made one here, so that all kernels round alike.
__device__ inline float result_of(const MatMulQuantParams& p, const MatMulTarget& w, const ResultRow& row, int j,
                                  float v) {
  v = __fmul_rn(v, p.row_scales[row.from]);
  if (w.bias != nullptr) v = __fadd_rn(v, w.bias[row.bias + j]);
  if (w.residual != nullptr) v = __fadd_rn(v, w.residual[static_cast<std::int64_t>(row.to) * w.columns_out + j]);
  return v;
}
__device__ inline void store_result(const MatMulQuantParams& p, const MatMulTarget& w, const ResultRow& row, int j,
                                    float v) {
  w.out[static_cast<std::int64_t>(row.to) * w.columns_out + j] = result_of(p, w, row, j, v);
}
/// `v`: of the first target, `u`: of the second.
__device__ inline void store_gated(const MatMulQuantParams& p, const ResultRow& row, int j, float v, float u) {
  const MatMulTarget& w = p.targets[0];
  w.out[static_cast<std::int64_t>(row.to) * w.columns_out + j] =
      apply_gate(p.end.gate, result_of(p, w, row, j, v), result_of(p, p.targets[1], row, j, u));
}

/// Blocks that share the columns of the same rows of weights (gridDim.z of them) have left their sums in memory:
/// whether this is the last one of them, which is to add all. What is added in what order does not depend on which that
/// is.
__device__ inline bool is_last_block(const MatMulQuantParams& p) {
  return arrives_last(p.counters + blockIdx.y * gridDim.x + blockIdx.x, gridDim.z);
}

/// What blocks that share columns have left at `all`, `floats` apart, added in their order: what this block has itself
/// is `own`. `Count` sums beside each other, of which number n is at `at(n)`, so that as many loads as there can be are
/// under way.
template <int Count, class At>
__device__ void add_left(const float* all, int floats, const float (&own)[Count], At at, float (&sum)[Count]) {
#pragma unroll
  for (int n = 0; n < Count; ++n) sum[n] = 0;
#pragma unroll 1
  for (unsigned z = 0; z < gridDim.z; z += 4) {
    float v[4][Count];
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) {
      const bool there = z + k < gridDim.z && z + k != blockIdx.z;
      const float* from = all + static_cast<std::int64_t>(z + k) * floats;
#pragma unroll
      for (int n = 0; n < Count; ++n) {
        v[k][n] = z + k == blockIdx.z ? own[n] : 0.0F;
        if (there) v[k][n] = __ldcg(from + at(n));
      }
    }
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) {
#pragma unroll
      for (int n = 0; n < Count; ++n) sum[n] += v[k][n];  // zeros where there is no block change nothing
    }
  }
}

/// After all results of the block are stored: the last block of these rows of activations makes the norm, the sum and
/// the fragments of what has become of them. `room`: shared memory that is not used any more.
template <int Warps>
__device__ void make_next(const MatMulQuantParams& p, int first_tile, int tiles, void* room) {
  const bool adds = p.end.add.in != nullptr, next = p.end.next.in != nullptr;
  if ((!adds && !next) || !arrives_last(p.end.arrivals + blockIdx.y, gridDim.x)) return;
  const int end = min(first_tile + tiles, (p.rows + 7) / 8);
#pragma unroll 1
  for (int tile = first_tile; tile < end; ++tile) {
    if (adds) {
      norm_and_add<Warps>(p.end.add, 8 * tile, min(8, p.rows - 8 * tile), *static_cast<NormAddRoom*>(room));
    }
    if (next) make_fragments<Warps>(p.end.next, tile, *static_cast<FragmentsRoom*>(room));
  }
}

/// Where this block, or block `z` of those, leaves its `floats` sums.
__device__ inline float* partials_of(const MatMulQuantParams& p, unsigned z, int floats) {
  return p.partials + static_cast<std::int64_t>((blockIdx.y * gridDim.x + blockIdx.x) * gridDim.z + z) * floats;
}

}  // namespace llminfer::cuda
