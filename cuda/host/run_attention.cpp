// Rotations, cache writes and attention as the parameters of their kernels.
#include <algorithm>

#include "host/executor.h"
#include "kernels/attention_mma.h"
#include "kernels/attention_plain.h"
#include "kernels/attention_tiled.h"
#include "kernels/kv_write.h"
#include "kernels/rope.h"
#include "kernels/rope_kv.h"

namespace llminfer::cuda {

RopeParams Executor::rope_of(const backend::Rope& op) const noexcept {
  const backend::RopeTable& table = program_.graph().rope_tables[static_cast<std::size_t>(op.table)];
  RopeParams p;
  p.in = data(op.in);
  p.out = data(op.out);
  p.positions = space_.step.positions();
  p.inverse_frequency = program_.frequencies(op.table);
  p.rows = rows(op.in);
  p.heads = op.heads;
  p.head_width = op.head_width;
  p.pairs = static_cast<std::int32_t>(table.inverse_frequency.size());
  p.magnitude = table.magnitude;
  p.adjacent = op.pairing == backend::RopePairing::interleaved;
  return p;
}

/// Keys, and values where they are of the same type: `count` says which.
KvWriteParams Executor::cache_of(const backend::KvWrite& op) const noexcept {
  KvWriteParams p;
  p.in[0] = data(op.k);
  p.sides[0] = kv_.side(op.slot, false);
  p.step = space_.step.of_group(op.slot.group);
  p.tokens = rows(op.k);
  p.heads = program_.graph().states[static_cast<std::size_t>(op.slot.group)].heads;
  if (op.v == backend::none) return p;
  p.in[1] = data(op.v);
  p.sides[1] = kv_.side(op.slot, true);
  if (p.sides[0].type == p.sides[1].type) p.count = 2;
  return p;
}

/// Norms of heads or none, rotations and the writing of the cache: `count` ops, `ahead` of this one.
RopeKvParams Executor::heads_of(std::int32_t ahead, std::int32_t count) const noexcept {
  const auto *query_norm = later<backend::RmsNorm>(ahead), *key_norm = later<backend::RmsNorm>(ahead + 1);
  const std::int32_t norms = count - 3;
  const auto *queries = later<backend::Rope>(ahead + norms), *keys = later<backend::Rope>(ahead + norms + 1);
  RopeKvParams p{rope_of(*queries), cache_of(*later<backend::KvWrite>(ahead + norms + 2))};
  p.cache.in[0] = data(keys->in);
  if (norms != 0) {
    p.queries.in = data(query_norm->in);
    p.cache.in[0] = data(key_norm->in);
    p.query_norm = program_.floats(query_norm->weight);
    p.key_norm = program_.floats(key_norm->weight);
    p.eps = query_norm->eps;
  }
  return p;
}

cudaError_t Executor::rotate_into_cache() noexcept {
  together_ = ops(fusions().rotates_into_cache);
  return launch(heads_of(0, together_), stream());
}

/// If this op is the first of those that make queries, keys and values: whether products do what follows.
void Executor::begin_heads() noexcept {
  const std::int32_t all = ops(fusions().makes_heads);
  if (all == 0) return;
  const std::int32_t products = ops(fusions().slices) > 0 ? 4 : 3;
  heads_ = heads_of(products, all - products);
  heads_missing_ = matmul_takes_heads(heads_) ? 3 : 0;
  heads_ops_ = all - products;
}

/// What is done with queries, keys and values, of which the launch of `p` makes so many.
void Executor::fold_heads(std::int32_t made, MatMulQuantParams& p) noexcept {
  if (heads_missing_ == 0) return;
  p.end.heads = heads_;
  p.end.head_arrivals = space_.memory.at<unsigned>(program_.plan().heads);
  heads_missing_ -= made;
  if (heads_missing_ == 0) together_ += heads_ops_;
}

cudaError_t Executor::run_one(const backend::Rope& op) noexcept {
  if (ops(fusions().rotates_into_cache) > 0) return rotate_into_cache();
  return launch(rope_of(op), stream());
}

cudaError_t Executor::run_one(const backend::KvWrite& op) noexcept {
  KvWriteParams p = cache_of(op);
  cudaError_t e = launch(p, stream());
  if (e != cudaSuccess || op.v == backend::none || p.count == 2) return e;
  p.in[0] = p.in[1];
  p.sides[0] = p.sides[1];
  return launch(p, stream());
}

/// Sequences with many tokens of the step, tile by tile.
cudaError_t Executor::attend_many(const AttentionParams& p) noexcept {
  AttentionTiles tiles;
  tiles.sequences = static_cast<std::int32_t>(batch_.sequences.size());
  const std::int32_t each = attention_tile_tokens(p.heads / p.kv_heads);
  for (const backend::SequenceRange& r : batch_.sequences) {
    if (r.count > attention_few_tokens) tiles.count += (r.count + each - 1) / each;
  }
  return launch_attention_tiled(p, tiles, stream());
}

cudaError_t Executor::run_one(const backend::PagedAttention& op) noexcept {
  const backend::StateGroup& group = program_.graph().states[static_cast<std::size_t>(op.slot.group)];
  AttentionParams p;
  p.q = data(op.q);
  p.sinks = program_.floats(op.sinks);
  p.out = data(op.out);
  p.k = kv_.side(op.slot, false);
  p.v = kv_.side(op.slot, true);
  p.step = space_.step.of_group(op.slot.group);
  p.tokens = rows(op.q);
  p.heads = op.heads;
  p.kv_heads = group.heads;
  p.window = group.window;
  p.scale = op.scale;
  p.cap = op.cap;
  p.full = op.mode == backend::AttentionMode::full;
  if (!attention_mma_takes(p.k.type, p.v.type, p.k.width, p.v.width, p.heads / p.kv_heads)) {
    return launch_attention_plain(p, stream());
  }
  AttentionRoom room;
  if (shape_.many > 0) {
    const cudaError_t e = attend_many(p);
    if (e != cudaSuccess || shape_.many == p.tokens) return e;
    p.tokens -= shape_.many;
    room.rows = space_.step.few();
  }
  const std::int32_t longest = p.window > 0 && !p.full ? std::min(shape_.longest, p.window) : shape_.longest;
  room.ranges = attention_ranges(p.tokens, attention_head_blocks(p.heads, p.kv_heads), longest);
  room.partials = space_.memory.at<float>(program_.plan().partials);
  room.merges = space_.memory.at<unsigned>(program_.plan().merges);
  room.arrivals = arrivals();
  backend::ValueId read = is(fusions().before_product) ? op.out : backend::none;
  if (shape_.all_rows && read == backend::none) {
    read = fusions().before_gathered_product[static_cast<std::size_t>(index_)];
  }
  if (read != backend::none && folds(read)) room.next = fold(fragments_of(read, 1 - set_), read);
  return launch_attention_mma(p, room, stream());
}

}  // namespace llminfer::cuda
