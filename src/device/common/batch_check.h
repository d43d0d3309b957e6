// Bounds of a step, checked before any of it is used as an index.
#pragma once

#include <cstdint>
#include <llminfer/backend/backend.hpp>

namespace llminfer::device {

/// What a batch is checked against. `pages[g]`: pages of state group g in the storage that is used.
struct BatchBounds {
  const backend::Graph* graph = nullptr;
  backend::Limits limits{};
  std::span<const std::int32_t> pages{};
  std::int32_t page_size = 0;
};

/// ok, or an error with a static message: counts beyond the limits, tokens or positions out of range, ranges that do
/// not cover the tokens, pages out of range or missing where a query looks, output spans too short. Allocates nothing.
backend::Status check_batch(const BatchBounds& bounds, const backend::StepBatch& batch,
                            const backend::StepOutputs& outputs) noexcept;

}  // namespace llminfer::device
