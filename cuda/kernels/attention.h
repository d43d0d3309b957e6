// What all attention kernels compute.
#pragma once

#include "kernels/kv_layout.h"
#include "kernels/launch.h"

namespace llminfer::cuda {

/// score = scale * q.k, capped by cap * tanh(score / cap) if cap > 0; with sinks, exp(sink[h]) joins the denominator.
/// A query at position p sees (p - window, p] (window 0: all up to p); with `full` up to its sequence's last token.
/// Query head h reads KV head h / (heads / kv_heads).
struct AttentionParams {
  const float* q = nullptr;      ///< [tokens x heads * k.width]
  const float* sinks = nullptr;  ///< [heads] or null
  float* out = nullptr;          ///< [tokens x heads * v.width]
  KvSide k{};
  KvSide v{};
  KvStep step{};
  std::int32_t tokens = 0;
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t window = 0;
  float scale = 1;
  float cap = 0;
  bool full = false;
};

}  // namespace llminfer::cuda
