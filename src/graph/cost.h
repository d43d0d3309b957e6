// The bytes an op must move and the operations it must do, for a given batch, without running it. The roofline report,
// the forecast and the simulated device read these numbers; nobody else counts.
//
// Bytes are distinct bytes: what a device with an unlimited cache would move once per op. Weights count in the type
// they are stored in, activations as float32, the cache in its own format.
#pragma once

#include <cstdint>
#include <llminfer/backend/backend.hpp>
#include <vector>

namespace llminfer::graph {

/// `count` tokens of one sequence at positions start, start + 1, ...
struct SequenceShape {
  std::int32_t start = 0;
  std::int32_t count = 0;
};

/// What the cost of a step depends on.
struct BatchShape {
  std::vector<SequenceShape> sequences{};
  std::int32_t outputs = 0;
  std::int32_t distinct_tokens = 0;         ///< different token ids; 0: as many as tokens
  std::vector<std::int32_t> experts_hit{};  ///< per MoE layer the different experts chosen; empty: expected value of
                                            ///< uniform routing, rounded to nearest
  backend::KvFormat kv{};

  std::int64_t tokens() const noexcept {
    std::int64_t n = 0;
    for (const SequenceShape& s : sequences) n += s.count;
    return n;
  }
};

struct OpCost {
  std::uint64_t weight_bytes = 0;
  std::uint64_t activation_bytes = 0;  ///< inputs read + output written
  std::uint64_t kv_read_bytes = 0;
  std::uint64_t kv_write_bytes = 0;
  std::uint64_t flops = 0;  ///< additions, multiplications, divisions, square roots, exponentials: one each; fma two

  std::uint64_t bytes() const noexcept { return weight_bytes + activation_bytes + kv_read_bytes + kv_write_bytes; }
  OpCost& operator+=(const OpCost& other) noexcept;
};

/// Of one sequence's chunk: keys that some query sees, and the sum over its queries of the keys each sees.
struct VisibleKeys {
  std::uint64_t distinct = 0;
  std::uint64_t pairs = 0;
};

/// `window`: as StateGroup::window.
VisibleKeys visible_keys(const SequenceShape& sequence, std::int64_t window) noexcept;

/// Different experts that `rows` rows choose, `used` each: the expected value of uniform routing, rounded to nearest.
std::uint64_t expected_experts_hit(std::int64_t experts, std::int32_t used, std::uint64_t rows) noexcept;

/// Bytes of one head's key or value of `width` values in a cache format.
std::uint64_t kv_row_bytes(KvType type, std::int32_t width) noexcept;

/// Bytes of a weight as stored (no packing, no padding).
std::uint64_t weight_bytes(const backend::Weight& weight) noexcept;

/// Cost of op `index` of a checked graph.
OpCost cost_of(const backend::Graph& graph, std::size_t index, const BatchShape& batch);

/// Sum over all ops.
OpCost cost_of(const backend::Graph& graph, const BatchShape& batch);

}  // namespace llminfer::graph
