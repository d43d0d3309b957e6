// Random weights in every format, with finite scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <llminfer/weight_type.hpp>

namespace llminfer::cpu::test {

/// `rows` x `columns` weights of magnitude about 1 in the file's form. Every level and scale code occurs.
std::vector<std::byte> random_rows(WeightType type, std::int64_t rows, std::int64_t columns, std::mt19937& random);

/// The weights as float32.
std::vector<float> unpacked(WeightType type, const std::vector<std::byte>& rows);

std::vector<float> random_floats(std::size_t count, std::mt19937& random, float spread = 1.0F);

/// All formats of weights.
inline constexpr WeightType weight_types[] = {
    WeightType::f32,  WeightType::f16,    WeightType::bf16,   WeightType::q4_0, WeightType::q4_1, WeightType::q5_0,
    WeightType::q5_1, WeightType::q8_0,   WeightType::q2_k,   WeightType::q3_k, WeightType::q4_k, WeightType::q5_k,
    WeightType::q6_k, WeightType::iq4_nl, WeightType::iq4_xs, WeightType::mxfp4};

}  // namespace llminfer::cpu::test
