// Which part of its roofs a device's kernels reach, measured on synthetic shapes.
#pragma once

#include <llminfer/backend/backend.hpp>
#include <vector>

namespace llminfer::profile {

/// Adds efficiencies of the weight types that `ceilings` has none of yet; those of attention and row ops come along.
/// Seconds long. Throws what the device reports, out_of_memory.
void calibrate(const backend::Backend& device, const std::vector<WeightType>& types, Ceilings& ceilings);

/// Measures all efficiencies of `ceilings` anew.
void calibrate_again(const backend::Backend& device, Ceilings& ceilings);

/// Types of `wanted` that still lack efficiencies.
std::vector<WeightType> missing_types(const Ceilings& ceilings, const std::vector<WeightType>& wanted);

}  // namespace llminfer::profile
