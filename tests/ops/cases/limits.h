// The limits that <llminfer/backend/op_cases.hpp> states, per op.
#pragma once

#include <algorithm>

#include <llminfer/backend/backend.hpp>

namespace llminfer::op_cases::limits {

constexpr double copy = 0;
constexpr double one_rounding = 2e-7;
constexpr double embed = 2e-6;
constexpr double norm = 1e-5;
constexpr double rope = 1e-5;
constexpr double softcap = 1e-6;
constexpr double activation = 1e-5;
constexpr double route = 1e-5;
constexpr double combine = 1e-5;
constexpr double scores = 1e-5;

constexpr bool is_float(WeightType type) {
  return type == WeightType::f32 || type == WeightType::f16 || type == WeightType::bf16;
}
constexpr double matmul(WeightType type) { return is_float(type) ? 1e-4 : 5e-2; }

constexpr double side(KvType type) {
  switch (type) {
    case KvType::f32:
      return 5e-4;
    case KvType::f16:
      return 2e-3;
    case KvType::bf16:
      return 2e-2;
    default:
      return 3e-2;
  }
}
constexpr double attention(backend::KvFormat format) { return std::max(side(format.k), side(format.v)); }

constexpr double decoder(WeightType type, KvType kv) { return is_float(type) && kv == KvType::f32 ? 1e-3 : 2e-1; }

}  // namespace llminfer::op_cases::limits
