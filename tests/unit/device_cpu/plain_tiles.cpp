#include "plain_tiles.h"

#include <algorithm>
#include <cmath>

#include "device/cpu/portable/vec8.h"

namespace llminfer::cpu {
namespace portable {
namespace {
#include "device/cpu/kernels/wide8.inc"
//
#include "device/cpu/kernels/math.inc"
//
#include "device/cpu/kernels/kv.inc"
//
#include "device/cpu/kernels/attention_tiles.inc"

const bool bf16_products = true;
#include "device/cpu/kernels/pairs.inc"
//
#include "device/cpu/kernels/tile_products.inc"
//
#include "device/cpu/kernels/attention.inc"

/// Two bf16 in the bits of a float.
struct Pair {
  float even, odd;
};

Pair pair_at(const void* p) {
  std::uint16_t bits[2];
  std::memcpy(bits, p, sizeof bits);
  return {std::bit_cast<float>(std::uint32_t{bits[0]} << 16), std::bit_cast<float>(std::uint32_t{bits[1]} << 16)};
}

/// sum + the products of `count` pairs, of which the last `odd` has no second one, in groups of 16.
float add_products(float sum, const float* a, const std::byte* b, std::int64_t b_step, int count, bool odd) {
  for (int group = 0; group < count; group += 16) {
    Pair sums{0.0F, 0.0F};
    for (int i = group; i < std::min(group + 16, count); ++i) {
      const Pair x = pair_at(a + i), y = pair_at(b + i * b_step);
      sums.even = std::fma(x.even, y.even, sums.even);
      if (!odd || i + 1 < count) sums.odd = std::fma(x.odd, y.odd, sums.odd);
    }
    sum += sums.even + sums.odd;
  }
  return sum;
}

float exp2_weight(float x) {
  if (x == -infinity) return 0.0F;
  const float whole = std::floor(x);
  float r = x - whole;  // rounded down, as VREDUCEPS does all of it
  if (double{r} + double{whole} > double{x}) r = std::nextafter(r, 0.0F);
  float p = std::fma(0.077067042F, r, 0.227644991F);
  p = std::fma(p, r, 0.695116786F);
  p = std::fma(p, r, 1.0F);
  return whole != whole ? whole : std::ldexp(p, static_cast<int>(std::max(whole, -1000.0F)));
}

void TileProducts::begin(const AttentionState&) {}
void TileProducts::end(const AttentionState&) {}

void TileProducts::scores(const AttentionTask& t, const AttentionState& a, const AttentionBlock& b) {
  for (int row = 0; row < a.rows; ++row) {
    for (int page = b.first_page; page <= b.last_page; ++page) {
      for (int token = 0; token < kv_page; ++token) {
        float* s = a.s + row * block_keys + (page * kv_page - b.base + token);
        *s = add_products(0.0F, a.q + row * a.q_width, page_of(t, page) + t.k_offset + 4 * token, 128,
                          (t.k_width + 1) / 2, false);
      }
    }
  }
}

void TileProducts::soften(const AttentionTask& t, const AttentionState& a, const AttentionBlock& b) {
  const int begin = b.first_page * kv_page - b.base, end = (b.last_page + 1) * kv_page - b.base;
  for (int row = 0; row < a.rows; ++row) {
    float* s = a.s + row * block_keys;
    std::uint16_t weights[block_keys] = {};
    float sums[16] = {};
    const Visible seen = visible(t, b, row);
    a.shrinks[row] = 1.0F;
    if (seen.first <= seen.last) {
      const float top = std::max(a.m[row], find_top(t, s, begin, end, seen));
      a.shrinks[row] = exp2_1(a.m[row] - top);
      a.m[row] = top;
      for (int c = begin; c < end; ++c) {
        const float x = exp2_weight(s[c] - top);
        sums[c % 16] += x;
        weights[c] = to_bf16(x);
      }
    }
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    std::memcpy(s + begin / 2, weights + begin, static_cast<std::size_t>(2 * (end - begin)));
    a.l[row] = b.first ? sums[0] : a.l[row] * a.shrinks[row] + sums[0];
    float* o = a.o + row * a.stride;
    if (!b.first) scale_row(o, o, a.stride, a.shrinks[row]);
  }
}

void TileProducts::outputs(const AttentionTask& t, const AttentionState& a, const AttentionBlock& b) {
  for (int row = 0; row < a.rows; ++row) {
    for (int column = 0; column < a.stride; ++column) {
      float* o = a.o + row * a.stride + column;
      if (b.first) *o = 0.0F;
      for (int page = b.first_page; page <= b.last_page; ++page) {
        const int tokens = std::min(b.high - page * kv_page + 1, kv_page);
        const float* weights = a.s + row * block_keys + (page * kv_page - b.base) / 2;
        const std::byte* values = page_of(t, page) + t.v_offset + 4 * column;
        *o = add_products(*o, weights, values, std::int64_t{4} * a.stride, (tokens + 1) / 2, tokens % 2 != 0);
      }
    }
  }
}

void TileProducts::block(const AttentionTask& t, const AttentionState& a, const AttentionBlock& b) {
  scores(t, a, b);
  soften(t, a, b);
  outputs(t, a, b);
}

}  // namespace
}  // namespace portable

void test::add_plain_tiles(Kernels& kernels) {
  using namespace portable;
#include "device/cpu/kernels/attention_table.inc"
}

}  // namespace llminfer::cpu
