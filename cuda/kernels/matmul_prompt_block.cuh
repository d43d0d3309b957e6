// What a product of many rows of activations (matmul_prompt.cuh) does with 32 rows of weights.
//
// Levels are brought to A as whole numbers: less the zero of the format, and in formats whose scales are whole numbers
// times those, which halves hold exactly up to 2048 (Q6_K and IQ4_XS go to 4096 and are rounded to even numbers there).
#pragma once

#include "kernels/matmul_chunk.cuh"
#include "kernels/matmul_stage.cuh"
#include "kernels/matmul_whole_scales.cuh"

namespace llminfer::cuda {

constexpr int prompt_threads = 256, prompt_rows = 256;
/// Tiles of 8 rows of activations. Where there are fewer, so many together are left out.
constexpr int prompt_tiles = expert_run_tiles, prompt_together = 4;

/// Of floats, which take twice the room, half as many columns.
template <class Format>
using PromptStage =
    Stage<Format, Format::floats ? 4 : 8, prompt_threads, Format::minima || Format::Scales::minimum, true>;

/// What a sum is multiplied by in the end.
template <class Format>
__host__ __device__ constexpr Unit prompt_end() {
  if (whole_scales<Format>) return {power_of_two(24), power_of_two(24)};
  return {Format::first, Format::second};
}

/// Registers of A of a block of 32 columns and 32 rows: two tiles, two steps.
template <class Format>
struct PromptBlock {
  unsigned a[2][2][4];
  float2 scale[2];

  template <int Block>
  __device__ void make(const Chunk<Format>& w) {
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      make_step<Block, 0>(w, tile);
      make_step<Block, 1>(w, tile);
      if constexpr (whole_scales<Format>) {
        scale[tile] = w.scales.d.of(tile);
      } else if constexpr (!Format::floats) {
        scale[tile] = w.scales.scale(tile, Block, 0);
      }
    }
  }
  template <int Block, int Step>
  __device__ void make_step(const Chunk<Format>& w, int tile) {
    using Levels = typename Format::Levels;
    w.levels.unpack(tile, 2 * Block + Step, a[tile][Step]);
    if constexpr (whole_scales<Format>) {
      multiply_scales<Format, Block, Step>(w, tile, a[tile][Step]);
    } else if constexpr (Levels::zero != 0) {
      constexpr Unit unit = unit_at<Levels>(2 * Block + Step);
      constexpr unsigned first = pair_bits(Levels::zero * unit.first, Levels::zero * unit.first);
      constexpr unsigned second = pair_bits(Levels::zero * unit.second, Levels::zero * unit.second);
#pragma unroll
      for (int r = 0; r < 4; ++r) a[tile][Step][r] = sub_halves(a[tile][Step][r], r % 2 == 0 ? first : second);
    }
  }
};

using PromptSums = float[2][prompt_tiles][4];

/// Products with the activations of a tile of eight rows. `at`: of the lane, in the stage.
template <class Format>
__device__ void add_floats(const PromptBlock<Format>& w, const std::byte* at, PromptSums& sum, int n) {
  const uint4 x = *reinterpret_cast<const uint4*>(at);
  const uint4 y = *reinterpret_cast<const uint4*>(at + PromptStage<Format>::half);
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) {
    const auto& a = w.a[tile];
    float(&to)[4] = sum[tile][n];
    if constexpr (Format::Levels::bfloat16) {
      multiply_bf16(to, a[0], x.x, x.y, to);
      multiply_bf16(to, a[1], x.z, x.w, to);
      multiply_bf16(to, a[0], y.x, y.y, to);
      multiply_bf16(to, a[1], y.z, y.w, to);
    } else {
      multiply(to, a[0], x.x, x.y, to);
      multiply(to, a[1], x.z, x.w, to);
      multiply(to, a[0], y.x, y.y, to);
      multiply(to, a[1], y.z, y.w, to);
    }
  }
}
/// Of blocks with one scale.
template <class Format, int Blocks>
__device__ void add_scaled(const PromptBlock<Format> (&w)[Blocks], const std::byte* at, PromptSums& sum, int n) {
  float product[2][4] = {};
#pragma unroll
  for (int block = 0; block < Blocks; ++block) {
    const uint4 x = *reinterpret_cast<const uint4*>(at + 512 * block);
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      multiply(product[tile], w[block].a[tile][0], x.x, x.y, product[tile]);
      multiply(product[tile], w[block].a[tile][1], x.z, x.w, product[tile]);
    }
  }
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) add_scaled(sum[tile][n], w[0].scale[tile], product[tile]);
}

/// Minima of the columns of a stage, which are products of their own with the sums of activations.
template <class Format>
struct PromptMinima {
  unsigned words[2][2];  // of two tiles
  float2 d[2];
  bool there = true;

  /// `chunk`: the stage's first. With halves lane 4 g + t has those of chunk t.
  __device__ void load(const std::uint8_t* group, int chunk, int chunks, int lane, bool second) {
    const int g16 = lane / 4 * 16;
    uint4 all[2] = {};
    if constexpr (Format::minima) {
      const std::uint8_t* tail = group + Format::at(chunk) + Format::piece_chunks * Format::chunk_bytes;
      all[0] = stream16(tail + 256 + 16 * lane);
      SuperScale dmin;
      dmin.load_two(tail + 128 + g16, second);
      d[0] = dmin.of(0);
      d[1] = dmin.of(1);
    } else {
      there = chunk + lane % 4 < chunks;
      if (there) {
        const std::uint8_t* at = group + Format::at(chunk + lane % 4) + Format::Levels::bytes + 128 + g16;
        all[0] = stream16(at);
        all[1] = stream16(at + 256);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      keep_two(all[i], second);
      words[0][i] = all[i].x;
      words[1][i] = all[i].y;
    }
  }
  /// `stage`: of the activations.
  __device__ void add(const std::byte* stage, int tiles, int lane, PromptSums& sum) const {
    using S = PromptStage<Format>;
    constexpr Unit end = prompt_end<Format>();
    const auto* sums = reinterpret_cast<const float*>(stage + S::fragments) + S::width / 8 * (lane / 4);
    const auto each = [&](auto&& use) {
#pragma unroll
      for (int n = 0; n < prompt_tiles; ++n) {
        if (n % prompt_together == 0 && n >= tiles) break;
        GroupSums of;
        of.load<Format>(sums + n * S::bytes / 4, lane % 4, there, S::pad);
        use(of, n);
      }
    };
    if constexpr (Format::minima) {
      const TileMinima<Format> first(words[0][0], d[0], end.first, end.second);
      const TileMinima<Format> second(words[1][0], d[1], end.first, end.second);
      each([&](const GroupSums& of, int n) {
        first.subtract(of, sum[0][n]);
        second.subtract(of, sum[1][n]);
      });
    } else {
      unsigned a[2][4];
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        a[tile][0] = a[tile][2] = __byte_perm(words[tile][0], words[tile][1], 0x5410);
        a[tile][1] = a[tile][3] = __byte_perm(words[tile][0], words[tile][1], 0x7632);
      }
      each([&](const GroupSums& of, int n) {
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
          float product[4] = {};
          multiply(product, a[tile], of.pair[0].upper, of.pair[0].rest, product);
          add_scaled(sum[tile][n], make_float2(1 / end.first, 1 / end.second), product);
        }
      });
    }
  }
};

}  // namespace llminfer::cuda
