// Random weights in any format, as the bytes of a model file.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <llminfer/weight_type.hpp>

#include "random.h"

namespace llminfer::op_cases {

using Bytes = std::vector<std::byte>;

/// All formats that weights come in.
std::span<const WeightType> all_weight_types();

/// "q4_k"
std::string lower_name(WeightType type);

/// Bytes of a row of `columns` weights (whole blocks).
std::size_t row_bytes(WeightType type, std::int64_t columns);

/// `rows` rows of `columns` weights of mean about 0 and root mean square about `rms`. Quantized: every quant bit is
/// random, scales are spread around what gives that size and have both signs.
Bytes random_weights(WeightType type, std::int64_t columns, std::int64_t rows, double rms, Random& random);

/// float32 values as bytes.
Bytes float_bytes(std::span<const float> values);

}  // namespace llminfer::op_cases
