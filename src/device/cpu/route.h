// Mixture of experts: choosing experts for a row, and rows by expert.
#pragma once

#include <llminfer/backend/graph.hpp>

#include "device/cpu/kernels.h"

namespace llminfer::cpu {

/// One row of MoeRoute. `bias` [experts] or null; `out` 2 * used floats; `scratch` 2 * experts floats.
void route_row(const Kernels& kernels, const backend::MoeRoute& op, const float* logits, const float* bias, float* out,
               float* scratch) noexcept;

/// The (row, slot) pairs of a batch sorted by expert, in rising order within one: pair = row * used + slot.
struct ExpertLists {
  std::int32_t* pairs = nullptr;   ///< [rows * used]
  std::int32_t* rows = nullptr;    ///< [rows * used]: pair / used
  std::int32_t* starts = nullptr;  ///< [experts + 1]
};

/// `route`: rows of 2 * used floats.
void sort_by_expert(const float* route, std::int64_t rows, std::int32_t used, std::int64_t experts,
                    const ExpertLists& lists) noexcept;

}  // namespace llminfer::cpu
