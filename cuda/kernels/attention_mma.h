// Attention on tensor cores, for caches of f16, bf16, q8_0 or q4_0 and heads of 64, 80, 96, 128 or 256 values: up to
// eight query heads that share a KV head are the columns of one product, so that keys and values are read once for
// them.
//
// A long sequence is split into ranges of keys that blocks take side by side; each leaves its maximum, sum and
// unnormalised output, and the last one of them merges all in the order of the ranges.
#pragma once

#include "kernels/attention.h"
#include "kernels/fragments.h"

namespace llminfer::cuda {

/// Whether the kernel takes heads of this kind; at most 16 query heads may share a KV head.
inline bool attention_mma_takes(KvType k, KvType v, std::int32_t k_width, std::int32_t v_width, std::int32_t group) {
  const bool width = k_width == 64 || k_width == 80 || k_width == 96 || k_width == 128 || k_width == 256;
  const bool type = k == v && k != KvType::f32 && k != KvType::automatic;
  return type && k_width == v_width && width && group >= 1 && group <= 16;
}

/// Blocks that share the keys of a token and range: each has up to eight of the heads that read a KV head.
inline std::int32_t attention_head_blocks(std::int32_t heads, std::int32_t kv_heads) {
  return kv_heads == 0 ? 0 : kv_heads * ((heads / kv_heads + 7) / 8);
}

/// Keys that are worth a block of their own.
constexpr std::int32_t attention_least_keys = 256;

/// The most (token, range) pairs that the room for partial results has to hold.
constexpr std::int32_t attention_max_partials = 1024;

/// Ranges of each query. `longest`: keys that the query with the most of them sees, or more.
std::int32_t attention_ranges(std::int32_t tokens, std::int32_t head_blocks, std::int32_t longest);

/// (token, head block) pairs whose ranges are ever merged.
inline std::int64_t attention_merges(std::int64_t tokens, std::int64_t head_blocks) {
  return (tokens < attention_max_partials / 2 ? tokens : attention_max_partials / 2) * head_blocks;
}

/// Floats of the room for partial results: for each (token, range, head) maximum, sum and `width` values.
inline std::int64_t attention_partial_floats(std::int64_t tokens, std::int64_t context, std::int64_t heads,
                                             std::int64_t width) {
  const std::int64_t pairs = tokens * ((context + attention_least_keys - 1) / attention_least_keys);
  return (pairs < attention_max_partials ? pairs : attention_max_partials) * heads * (width + 2);
}

/// What a launch needs beside the parameters of attention.
struct AttentionRoom {
  const std::int32_t* rows = nullptr;  ///< [tokens]: which of the step's, others are left alone; null: all
  std::int32_t ranges = 1;
  float* partials = nullptr;     ///< attention_partial_floats; unused where `ranges` is 1
  unsigned* merges = nullptr;    ///< [attention_merges], zero before and after; unused where `ranges` is 1
  FragmentsParams next{};        ///< of the output, made by the last block of eight tokens; in null: none
  unsigned* arrivals = nullptr;  ///< [tiles of 8 tokens], zero before and after; unused without `next`
};

/// The keys of a range follow from the step's longest sequence, on the GPU: a launch that was recorded serves steps of
/// other lengths.
cudaError_t launch_attention_mma(const AttentionParams& params, const AttentionRoom& room, cudaStream_t stream);

}  // namespace llminfer::cuda
