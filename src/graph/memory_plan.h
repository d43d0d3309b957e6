// Where activations live: values whose lifetimes do not overlap share memory.
#pragma once

#include <cstdint>
#include <llminfer/backend/backend.hpp>
#include <memory>

#include "core/vector.h"

namespace llminfer::graph {

/// Byte offsets into one workspace sized for the largest step. Offsets and sizes are multiples of 64.
struct MemoryPlan {
  core::Vector<std::uint64_t> offsets;  ///< per value
  std::uint64_t total = 0;
};

/// Bytes of one value for the largest step (float32), rounded up to 64.
std::uint64_t value_bytes(const backend::Value& value, const backend::Limits& limits);

/// Places every value of a checked graph. A value lives from the op that writes it to the last op that reads it; the
/// graph's logits and hidden state live to the end. The table comes from `memory` (null: the heap). Throws Exception
/// (out_of_memory) when the total leaves 63 bits.
MemoryPlan plan_memory(const backend::Graph& graph, const backend::Limits& limits,
                       const std::shared_ptr<core::Memory>& memory = nullptr);

}  // namespace llminfer::graph
