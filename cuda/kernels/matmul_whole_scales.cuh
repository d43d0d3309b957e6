// Scales that are whole numbers, multiplied into the levels before tensor cores get them: for kernels where one A
// serves several tiles of activations, so that this costs less than a scale for each sum of products.
#pragma once

#include "kernels/matmul_chunk.cuh"

namespace llminfer::cuda {

/// Scales of groups beside d, as whole numbers that become part of the levels.
template <class Format>
constexpr bool whole_scales = Format::Scales::super;

/// Levels times scales, both less their zeros, in units of 2^-24.
template <class Format, int Block, int Step>
__device__ void multiply_scales(const Chunk<Format>& w, int tile, unsigned (&a)[4]) {
  using Scales = typename Format::Scales;
  constexpr Unit unit = unit_at<typename Format::Levels>(2 * Block + Step);
  constexpr float stored = power_of_two(-24) / Scales::stored_unit(Step);
  constexpr float first = stored / unit.first, second = stored / unit.second, zero = 1024 + Scales::zero;
  constexpr unsigned offset = pair_bits(-zero * first, -zero * second);
  const unsigned s = fma_halves(w.scales.stored(tile, Block, Step), pair_bits(first, second), offset);
  unsigned scale[2], zeros[2];  // of rows g and g + 8
  spread_pair(s, scale[0], scale[1]);
  constexpr float level = Format::Levels::zero;
  if constexpr (level == 0) {
#pragma unroll
    for (int r = 0; r < 4; ++r) a[r] = mul_halves(a[r], scale[r % 2]);
  } else {
    spread_pair(mul_halves(s, pair_bits(-level * unit.first, -level * unit.second)), zeros[0], zeros[1]);
#pragma unroll
    for (int r = 0; r < 4; ++r) a[r] = fma_halves(a[r], scale[r % 2], zeros[r % 2]);
  }
}

/// A of a step and a tile.
template <class Format, int Block, int Step>
__device__ void make_multiplied(const Chunk<Format>& w, int tile, unsigned (&a)[4]) {
  w.levels.unpack(tile, 2 * Block + Step, a);
  multiply_scales<Format, Block, Step>(w, tile, a);
}

/// A chunk's products of levels times scales, which are added to others or, if these are the `first`, to nothing. `x`:
/// the lane's fragments of activations, of two blocks.
template <class Format, int Tiles>
__device__ void multiply_whole(const Chunk<Format>& w, const uint4 (&x)[2][Tiles], bool first, Sums<Tiles>& products) {
#pragma unroll
  for (int tile = 0; tile < 4; ++tile) {
    unsigned a[4][4];
    make_multiplied<Format, 0, 0>(w, tile, a[0]);
    make_multiplied<Format, 0, 1>(w, tile, a[1]);
    make_multiplied<Format, 1, 0>(w, tile, a[2]);
    make_multiplied<Format, 1, 1>(w, tile, a[3]);
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
      float(&product)[4] = products[tile][n];
#pragma unroll
      for (int e = 0; e < 4; ++e) product[e] = first ? 0 : product[e];
#pragma unroll
      for (int block = 0; block < 2; ++block) {
        multiply(product, a[2 * block], x[block][n].x, x[block][n].y, product);
        multiply(product, a[2 * block + 1], x[block][n].z, x[block][n].w, product);
      }
    }
  }
}

}  // namespace llminfer::cuda
