// A one-layer decoder graph, small enough to count by hand.
#pragma once

#include "graph/builder.h"

namespace llminfer::tests {

inline backend::Weight vector_weight(const char* name, std::int64_t columns) {
  return {name, WeightType::f32, columns, 1, 1, backend::Cut::none};
}
inline backend::Weight matrix_weight(const char* name, std::int64_t columns, std::int64_t rows,
                                     WeightType type = WeightType::q8_0) {
  return {name, type, columns, rows, 1, backend::Cut::none};
}

/// Width 64, 4 heads of 16 over 2 KV heads, feed-forward 96, vocabulary 100.
inline backend::Graph tiny_graph(std::int32_t window = 0, std::int32_t context = 128) {
  graph::GraphBuilder b;
  const auto embedding = b.weight(matrix_weight("embedding", 64, 100));
  b.group(backend::GroupKind::embed);
  auto x = b.embed(embedding, 1.0F);
  b.group(backend::GroupKind::qkv, 0);
  const auto h = b.rms_norm(x, b.weight(vector_weight("attn_norm", 64)), 64, 1e-5F);
  const auto table = b.rope_table({{1.0F, 0.1F, 0.01F, 0.001F, 1e-4F, 1e-5F, 1e-6F, 1e-7F}, 1.0F});
  const auto q = b.rope(b.matmul(h, b.weight(matrix_weight("q", 64, 64))), table, 4, backend::RopePairing::half);
  const auto k = b.rope(b.matmul(h, b.weight(matrix_weight("k", 64, 32))), table, 2, backend::RopePairing::half);
  const auto v = b.matmul(h, b.weight(matrix_weight("v", 64, 32)));
  const auto slot = b.state(window, 2, 16, 16);
  b.kv_write(k, v, slot);
  b.group(backend::GroupKind::attention, 0);
  backend::PagedAttention attention;
  attention.q = q;
  attention.slot = slot;
  attention.heads = 4;
  attention.scale = 0.25F;
  const auto a = b.attention(attention);
  b.group(backend::GroupKind::attention_out, 0);
  x = b.add(b.gather_rows(x), b.matmul(b.gather_rows(a), b.weight(matrix_weight("o", 64, 64))));
  b.group(backend::GroupKind::ffn, 0);
  const auto f = b.rms_norm(x, b.weight(vector_weight("ffn_norm", 64)), 64, 1e-5F);
  const auto gate = b.matmul(f, b.weight(matrix_weight("gate", 64, 96)));
  const auto up = b.matmul(f, b.weight(matrix_weight("up", 64, 96)));
  const auto act = b.gated_activation(gate, up, backend::Activation::silu);
  x = b.add(x, b.matmul(act, b.weight(matrix_weight("down", 96, 64))));
  b.group(backend::GroupKind::head);
  const auto last = b.rms_norm(x, b.weight(vector_weight("norm", 64)), 64, 1e-5F);
  const auto logits = b.matmul(last, embedding);
  return b.finish(logits, last, 100, context);
}

}  // namespace llminfer::tests
