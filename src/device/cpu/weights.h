// All weights of a graph in the device's form, in one arena: matrices as panels, vectors as float32.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include <llminfer/backend/backend.hpp>

#include "core/memory.h"
#include "core/thread_pool.h"
#include "core/vector.h"
#include "device/cpu/panel_layout.h"
#include "device/cpu/slab.h"

namespace llminfer::cpu {

/// Where one weight lies. A weight read both as matrix and as vector has both forms.
struct PlacedWeight {
  bool matrix = false;
  bool vector = false;
  PackedShape shape{};  ///< of one expert
  std::int64_t experts = 1;
  SlabFormat slab{};
  std::uint64_t panels_at = 0;  ///< byte offsets into the arena
  std::uint64_t values_at = 0;

  const std::byte* panel(const std::byte* arena, std::int64_t expert, std::int64_t index) const noexcept {
    return arena + panels_at + static_cast<std::uint64_t>((expert * shape.panels + index) * shape.panel_bytes);
  }
  const float* values(const std::byte* arena) const noexcept {
    return reinterpret_cast<const float*>(arena + values_at);
  }
};

struct WeightPlan {
  core::Vector<PlacedWeight> weights{};
  std::uint64_t bytes = 0;
};

/// Places every weight that an op reads; the table comes from `memory`. Throws unsupported_type or out_of_memory.
WeightPlan plan_weights(const backend::Graph& graph, const std::shared_ptr<core::Memory>& memory);

/// Reads and packs all weights into an arena of plan.bytes; every thread of the pool takes its share, through a buffer
/// of about a MiB of its own. Throws what the reader reports, cancelled, out_of_memory.
core::Buffer pack_weights(const backend::Graph& graph, const WeightPlan& plan, const backend::WeightReader& reader,
                          const backend::CompileOptions& options, core::ThreadPool& pool,
                          const std::shared_ptr<core::Memory>& memory);

}  // namespace llminfer::cpu
