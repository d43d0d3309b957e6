// Cosines and sines of rotary embedding, for one token, all pairs of one table.
#pragma once

#include <cstdint>
#include <span>

namespace llminfer::cpu {

/// cosine[i], sine[i] of position * inverse_frequency[i], times magnitude. Computed in double by range reduction and a
/// polynomial, the same on every machine; error below 1e-7 for angles up to 2^30.
void rope_angles(std::int32_t position, std::span<const float> inverse_frequency, float magnitude, float* cosine,
                 float* sine) noexcept;

}  // namespace llminfer::cpu
