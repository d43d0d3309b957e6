// Angles of rotary embedding, with every scaling rule worked into the numbers.
#pragma once

#include <llminfer/backend/graph.hpp>
#include <span>

#include "format/hyper_parameters.h"

namespace llminfer::models {

/// Table for heads that rotate `dimensions` (even) values. `windowed`: the layer has a sliding window, which may have
/// its own base. `divisors`: empty, or one per pair that its frequency is divided by (llama3 factors, LongRoPE).
/// Sources: RoFormer (Su et al. 2021); position interpolation (Chen et al. 2023); YaRN (Peng et al. 2023) eq. 17-22;
/// LongRoPE (Ding et al. 2024).
backend::RopeTable make_rope_table(const format::RopeParameters& rope, int dimensions, bool windowed,
                                   std::span<const float> divisors);

}  // namespace llminfer::models
