// A block of four warps has one token, one KV head (with the query heads that read it) and one range of keys. Warp w
// takes pages w, w + 4, ... of 16 keys each. Nothing but the merge of the warps goes through shared memory:
//
//   scores  S[16 heads x 16 keys] = Q K^T. Q is A, in registers for the whole run; K is B. The columns of a head may be
//           multiplied in any order, so lane 4 g + t takes 8 neighbouring ones (16 bytes) of key g and Q is laid out to
//           match: every load is whole sectors.
//   output  O[16 heads x D] += P V. What mma leaves of S in a lane is what it wants of P. V is B, which wants two keys'
//           values of one column in a register: lane 4 g + t reads 16 bytes (8 columns) of each of its four keys and
//           puts pairs together with prmt; column 8 g + j belongs to product j.
//
// Bytes: K and V of the range once. Limits: see attention_mma_takes. Speed not yet measured.
#include "kernels/attention_mma.h"

#include <algorithm>

#include "kernels/arrival.cuh"
#include "kernels/fragments.cuh"
#include "kernels/mma.cuh"
#include "kernels/numbers.cuh"

namespace llminfer::cuda {
namespace {

constexpr int warps = 4;
constexpr int threads = 32 * warps;
/// Heads up to which a multiprocessor is to have room for four blocks, so that enough keys are under way.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int widest_of_four = 64;  // 80 would spill
#else
constexpr int widest_of_four = 80;
#endif

/// Maximum and sum of two query heads, rows g and g + 8.
struct Softmax {
  float best[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // of this lane's keys
};

/// Over the four lanes that share a row.
__device__ float row_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(0xffffffffU, v, 1));
  return fmaxf(v, __shfl_xor_sync(0xffffffffU, v, 2));
}
__device__ float row_sum(float v) {
  v += __shfl_xor_sync(0xffffffffU, v, 1);
  return v + __shfl_xor_sync(0xffffffffU, v, 2);
}

/// e^(a - b), 0 where a is -infinity even if b is too.
__device__ float fade_of(float a, float b) { return a == -INFINITY ? 0.0F : expf(a - b); }

template <int D>
struct Query {
  static constexpr int steps = D / 16;
  /// Wide heads leave no registers for it: all warps read it from shared memory then.
  static constexpr bool in_shared = D > 128;
  unsigned a[steps][4];
  const uint4* room;  // of this lane, every 32nd one
  float scale[2];     // the power of two that was taken out, times the scale of scores
};

/// First of the four columns of a step that lane t multiplies.
template <int D>
__device__ constexpr int column_of(int step, int t) {
  return step * 16 + 16 < D || D % 32 == 0 ? step / 2 * 32 + 8 * t + step % 2 * 4 : step * 16 + 4 * t;
}

template <int D>
__device__ Query<D> load_query(const AttentionParams& p, int token, int kv_head, int group, int g, int t) {
  Query<D> q;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = g + 8 * half;
    const bool there = row < group;
    const float* from = p.q + (static_cast<std::int64_t>(token) * p.heads + kv_head * group + (there ? row : 0)) * D;
    float largest = 0;
#pragma unroll
    for (int s = 0; s < Query<D>::steps; ++s) {
      const float4 v = *reinterpret_cast<const float4*>(from + column_of<D>(s, t));
      largest = fmaxf(fmaxf(largest, fmaxf(fabsf(v.x), fabsf(v.y))), fmaxf(fabsf(v.z), fabsf(v.w)));
    }
    largest = row_max(largest);
    const unsigned exponent = min(max(__float_as_uint(largest) & 0x7f800000U, 0x00800000U), 0x7e800000U);
    const float power = __uint_as_float(exponent), inverse = there ? 1.0F / power : 0.0F;
    q.scale[half] = p.scale * power;
#pragma unroll
    for (int s = 0; s < Query<D>::steps; ++s) {
      const float4 v = *reinterpret_cast<const float4*>(from + column_of<D>(s, t));
      q.a[s][half] = pair_of_halves(v.x * inverse, v.y * inverse);
      q.a[s][half + 2] = pair_of_halves(v.z * inverse, v.w * inverse);
    }
  }
  return q;
}

template <int D>
__device__ void multiply_step(const Query<D>& q, int step, unsigned low, unsigned high, float (&s)[4]) {
  if constexpr (Query<D>::in_shared) {
    const uint4 v = q.room[32 * step];
    const unsigned a[4] = {v.x, v.y, v.z, v.w};
    multiply_add(s, a, low, high);
  } else {
    multiply_add(s, q.a[step], low, high);
  }
}

/// Scores of 8 keys: `key` is this lane's, at `row` of the page.
template <int D>
__device__ void multiply_keys(const Query<D>& q, const std::uint8_t* row, int t, float (&s)[4]) {
#pragma unroll
  for (int block = 0; block < D / 32; ++block) {
    const uint4 k = *reinterpret_cast<const uint4*>(row + 2 * (32 * block + 8 * t));
    multiply_step(q, 2 * block, k.x, k.y, s);
    multiply_step(q, 2 * block + 1, k.z, k.w, s);
  }
  if constexpr (D % 32 != 0) {
    const uint2 k = *reinterpret_cast<const uint2*>(row + 2 * (D - 16 + 4 * t));
    multiply_step(q, D / 16 - 1, k.x, k.y, s);
  }
}

/// The halves at `index` of two words' worth of two keys, side by side.
__device__ unsigned pair_at(unsigned first, unsigned second, int index) {
  return __byte_perm(first, second, index == 0 ? 0x5410 : 0x7632);
}

/// Columns [base, base + 8 Words) for W = 2 Words halves a lane: products base .. of O.
template <int Words>
__device__ void multiply_values(float (*out)[4], const unsigned (&p)[4], const unsigned (&rest)[4],
                                const std::uint8_t* const (&rows)[4], int column) {
  unsigned v[4][Words];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (rows[k] == nullptr) {  // no such key: what stands there is no number perhaps
#pragma unroll
      for (int w = 0; w < Words; ++w) v[k][w] = 0;
    } else if constexpr (Words == 4) {
      const uint4 x = *reinterpret_cast<const uint4*>(rows[k] + 2 * column);
      v[k][0] = x.x, v[k][1] = x.y, v[k][2] = x.z, v[k][3] = x.w;
    } else if constexpr (Words == 2) {
      const uint2 x = *reinterpret_cast<const uint2*>(rows[k] + 2 * column);
      v[k][0] = x.x, v[k][1] = x.y;
    } else {
      v[k][0] = *reinterpret_cast<const unsigned*>(rows[k] + 2 * column);
    }
  }
#pragma unroll
  for (int j = 0; j < 2 * Words; ++j) {
    const unsigned low = pair_at(v[0][j / 2], v[1][j / 2], j % 2), high = pair_at(v[2][j / 2], v[3][j / 2], j % 2);
    multiply_add(out[j], rest, low, high);
    multiply_add(out[j], p, low, high);
  }
}

template <int D>
struct Output {
  static constexpr int tiles = D / 8;
  float o[tiles][4] = {};

  __device__ void add(const unsigned (&p)[4], const unsigned (&rest)[4], const std::uint8_t* const (&rows)[4], int g) {
#pragma unroll
    for (int b = 0; b < D / 64; ++b) multiply_values<4>(o + 8 * b, p, rest, rows, 64 * b + 8 * g);
    if constexpr (D % 64 == 32) multiply_values<2>(o + D / 64 * 8, p, rest, rows, D / 64 * 64 + 4 * g);
    if constexpr (D % 64 == 16) multiply_values<1>(o + D / 64 * 8, p, rest, rows, D / 64 * 64 + 2 * g);
  }
  /// Column of element e % 2 of tile i.
  __device__ static int column(int tile, int e, int t) {
    const int base = tile / 8 * 64, width = base + 64 <= D ? 8 : D % 64 / 8;
    return base + width * (2 * t + e % 2) + tile % 8;
  }
};

/// A multiple of 64. One page more than there are keys: a range starts at the page of its first key.
__device__ int keys_of_range(const AttentionParams& p, int ranges) {
  const int longest = p.window > 0 && !p.full ? min(*p.step.longest, p.window) : *p.step.longest;
  return ((longest + kv_page + ranges - 1) / ranges + 63) / 64 * 64;
}

/// Where a range leaves what it found of a head: maximum, sum, output.
__device__ float* partial_of(const AttentionParams& p, const AttentionRoom& room, int token, int range, int head) {
  const std::int64_t row = (static_cast<std::int64_t>(token) * room.ranges + range) * p.heads + head;
  return room.partials + row * (p.v.width + 2);
}

/// The heads of the block from what all ranges left, in their order.
template <int D>
__device__ void merge_ranges(const AttentionParams& p, const AttentionRoom& room, int token, int kv_head, int group,
                             bool there) {
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < group * D; i += threads) {
    const int column = i % D, head = kv_head * group + i / D;
    float value = 0;
    if (there) {
      const std::int64_t step = static_cast<std::int64_t>(p.heads) * (D + 2);
      const float* from = partial_of(p, room, token, 0, head);
      const float sink = p.sinks != nullptr ? p.sinks[head] : -INFINITY;
      float best = sink;
      for (int r = 0; r < room.ranges; ++r) best = fmaxf(best, __ldcg(from + r * step));
      float total = fade_of(sink, best), sum = 0;
      for (int r = 0; r < room.ranges; ++r) {
        const float fade = fade_of(__ldcg(from + r * step), best);
        total += __ldcg(from + r * step + 1) * fade;
        sum += __ldcg(from + r * step + 2 + column) * fade;
      }
      value = sum / total;
    }
    p.out[(static_cast<std::int64_t>(token) * p.heads + head) * D + column] = value;
  }
}

template <int D>
struct AttentionShared {
  float merged[16][D + 4];
  float warp_best[warps][16], warp_total[warps][16];
};

/// A block's range of keys: to `out` if it is the only one, else to the partial results.
template <int D>
__device__ void attend(const AttentionParams& p, const AttentionRoom& room, AttentionShared<D>& shared, int token,
                       int kv_head, int range, int position) {
  auto& merged = shared.merged;
  auto& warp_best = shared.warp_best;
  auto& warp_total = shared.warp_total;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4,
            t = lane % 4;
  const int group = p.heads / p.kv_heads;
  const int sequence = p.step.sequence_of[token];
  const int last_seen = p.full ? p.step.last[sequence] : position;
  const int first_seen = p.window > 0 ? max(0, position - p.window + 1) : 0;
  // Ranges start at whole pages.
  const int keys = keys_of_range(p, room.ranges);
  const int start = first_seen / kv_page * kv_page + range * keys;
  const int end = min(last_seen + 1, start + keys);
  const std::int32_t* pages = p.step.pages + p.step.pages_at[sequence];

  Query<D> q = load_query<D>(p, token, kv_head, group, g, t);
  if constexpr (Query<D>::in_shared) {
    __shared__ uint4 query[Query<D>::steps * 32];
    if (warp == 0) {
#pragma unroll
      for (int s = 0; s < Query<D>::steps; ++s) {
        query[32 * s + lane] = make_uint4(q.a[s][0], q.a[s][1], q.a[s][2], q.a[s][3]);
      }
    }
    __syncthreads();
    q.room = query + lane;
  }
  Softmax softmax;
  Output<D> out;
  for (int key = start + warp * kv_page; key < end; key += warps * kv_page) {
    const std::int64_t page = pages[key / kv_page];
    const std::uint8_t* k = p.k.data + page * p.k.page_bytes + p.k.offset + kv_head * p.k.block_bytes;
    const std::uint8_t* v = p.v.data + page * p.v.page_bytes + p.v.offset + kv_head * p.v.block_bytes;
    float s[2][4] = {};
    multiply_keys<D>(q, k + 2 * D * g, t, s[0]);
    multiply_keys<D>(q, k + 2 * D * (g + 8), t, s[1]);
    // Element e of tile n: row g + 8 (e / 2), key 8 n + 2 t + e % 2.
    float top[2] = {softmax.best[0], softmax.best[1]};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int at = key + 8 * n + 2 * t + e % 2;
        float score = s[n][e] * q.scale[e / 2];
        if (p.cap > 0) score = p.cap * tanhf(score / p.cap);
        s[n][e] = at >= first_seen && at < end ? score : -INFINITY;
        top[e / 2] = fmaxf(top[e / 2], s[n][e]);
      }
    }
    float fade[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      top[half] = row_max(top[half]);
      fade[half] = fade_of(softmax.best[half], top[half]);
      softmax.best[half] = top[half];
      softmax.sum[half] *= fade[half];
    }
    // Weights as two halves each: what the first one loses to rounding is in the second.
    unsigned weights[4], rests[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = i / 2, half = i % 2;
      const float first = fade_of(s[n][2 * half], top[half]), second = fade_of(s[n][2 * half + 1], top[half]);
      weights[i] = pair_of_halves(first, second);
      const float2 rounded = floats_of_pair(weights[i]);
      rests[i] = pair_of_halves(first - rounded.x, second - rounded.y);
      softmax.sum[half] += first + second;
    }
#pragma unroll
    for (int i = 0; i < Output<D>::tiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) out.o[i][e] *= fade[e / 2];
    }
    const std::uint8_t* rows[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 2 * t + i % 2 + i / 2 * 8;
      rows[i] = key + row < end ? v + 2 * D * row : nullptr;
    }
    out.add(weights, rests, rows, g);
  }

  // The warps' results, added in their order.
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = row_sum(softmax.sum[half]);
    if (t == 0) {
      warp_best[warp][g + 8 * half] = softmax.best[half];
      warp_total[warp][g + 8 * half] = total;
    }
  }
  __syncthreads();
  float scale[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float best = -INFINITY;
    for (int w = 0; w < warps; ++w) best = fmaxf(best, warp_best[w][g + 8 * half]);
    scale[half] = fade_of(softmax.best[half], best);
  }
  for (int w = 0; w < warps; ++w) {
    if (warp == w) {
#pragma unroll
      for (int i = 0; i < Output<D>::tiles; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float& to = merged[g + e / 2 * 8][Output<D>::column(i, e, t)];
          const float mine = out.o[i][e] * scale[e / 2];
          to = w == 0 ? mine : to + mine;
        }
      }
    }
    __syncthreads();
  }
  for (int i = static_cast<int>(threadIdx.x); i < group * D; i += threads) {
    const int row = i / D, column = i % D, head = kv_head * group + row;
    float best = -INFINITY, total = 0;
    for (int w = 0; w < warps; ++w) best = fmaxf(best, warp_best[w][row]);
    for (int w = 0; w < warps; ++w) total += warp_total[w][row] * fade_of(warp_best[w][row], best);
    const float value = merged[row][column];
    if (room.ranges == 1) {
      const float sink = p.sinks != nullptr ? p.sinks[head] : -INFINITY;
      const float top = fmaxf(best, sink);
      total = total * fade_of(best, top) + fade_of(sink, top);
      p.out[(static_cast<std::int64_t>(token) * p.heads + head) * D + column] = value * fade_of(best, top) / total;
    } else {
      float* to = partial_of(p, room, token, range, head);
      to[2 + column] = value;
      if (column == 0) {
        to[0] = best;
        to[1] = total;
      }
    }
  }
}

template <int D>
__global__ void __launch_bounds__(threads, D <= widest_of_four ? 4 : 1)
    attention_mma_kernel(AttentionParams p, AttentionRoom room) {
  __shared__ AttentionShared<D> shared;
  const int token = static_cast<int>(blockIdx.x), kv_head = static_cast<int>(blockIdx.y);
  const int group = p.heads / p.kv_heads, position = p.step.positions[token];
  if (position >= 0) {
    attend<D>(p, room, shared, token, kv_head, static_cast<int>(blockIdx.z), position);
  } else if (room.ranges == 1) {
    float* to = p.out + (static_cast<std::int64_t>(token) * p.heads + kv_head * group) * D;
    for (int i = static_cast<int>(threadIdx.x); i < group * D; i += threads) to[i] = 0;
  }
  if (room.ranges > 1) {
    if (!arrives_last(room.merges + token * p.kv_heads + kv_head, gridDim.z)) return;
    merge_ranges<D>(p, room, token, kv_head, group, position >= 0);
  }
  if (room.next.in == nullptr) return;
  const int tile = token / 8;
  const unsigned blocks = static_cast<unsigned>(min(8, p.tokens - 8 * tile) * p.kv_heads);
  if (!arrives_last(room.arrivals + tile, blocks)) return;
  make_fragments<warps>(room.next, tile, reinterpret_cast<FragmentsRoom&>(shared));
}

template <int D>
void launch_for(const AttentionParams& p, const AttentionRoom& room, cudaStream_t stream) {
  static_assert(sizeof(FragmentsRoom) <= sizeof(AttentionShared<D>));
  const dim3 grid(static_cast<unsigned>(p.tokens), static_cast<unsigned>(p.kv_heads),
                  static_cast<unsigned>(room.ranges));
  attention_mma_kernel<D><<<grid, threads, 0, stream>>>(p, room);
}

}  // namespace

/// Enough ranges for the GPU to have work, few enough for one block to merge.
std::int32_t attention_ranges(std::int32_t tokens, std::int32_t kv_heads, std::int32_t longest) {
  constexpr std::int32_t least = attention_least_keys;
  const std::int64_t heads = std::max<std::int64_t>(1, std::int64_t{tokens} * kv_heads);
  const auto most = static_cast<std::int32_t>(attention_max_partials / heads);
  return std::max(1, std::min(most, (longest + least - 1) / least));
}

cudaError_t launch_attention_mma(const AttentionParams& p, const AttentionRoom& room, cudaStream_t stream) {
  if (p.tokens == 0) return cudaSuccess;
  if (p.kv_heads == 0 || !attention_mma_takes(p.k.type, p.v.type, p.k.width, p.v.width, p.heads / p.kv_heads)) {
    return cudaErrorInvalidValue;
  }
  switch (p.k.width) {
    case 64:
      launch_for<64>(p, room, stream);
      break;
    case 80:
      launch_for<80>(p, room, stream);
      break;
    case 96:
      launch_for<96>(p, room, stream);
      break;
    case 128:
      launch_for<128>(p, room, stream);
      break;
    default:
      launch_for<256>(p, room, stream);
  }
  return cudaGetLastError();
}

}  // namespace llminfer::cuda
