// Attention of prompts on tensor cores: a block takes 64 rows of queries, which are tokens of one sequence times the
// query heads of one KV head, and reads the keys and values that they see once, tile by tile through shared memory.
#pragma once

#include "kernels/attention.h"
#include "kernels/attention_mma.h"

namespace llminfer::cuda {

/// Sequences of so many tokens in a step, or fewer, are not tiled: attention_mma splits their keys among blocks.
constexpr std::int32_t attention_few_tokens = 8;

/// Tokens of a tile whose query heads, `group` on a KV head, are its 64 rows.
inline std::int32_t attention_tile_tokens(std::int32_t group) { return 64 / group; }

/// Whether there is a kernel for heads of this kind.
inline bool attention_tiled_takes(KvType k, KvType v, std::int32_t k_width, std::int32_t v_width, std::int32_t group) {
  return attention_mma_takes(k, v, k_width, v_width, group);
}

struct AttentionTiles {
  std::int32_t sequences = 0;  ///< of the step
  std::int32_t count = 0;      ///< tiles of those with more than attention_few_tokens tokens
};

/// Rows of other sequences are left alone. step.firsts must be there.
cudaError_t launch_attention_tiled(const AttentionParams& params, const AttentionTiles& tiles, cudaStream_t stream);

}  // namespace llminfer::cuda
