#include "device/cpu/slab.h"

namespace llminfer::cpu {

SlabFormat slab_format(WeightType type) noexcept {
  switch (type) {
    case WeightType::q4_0:
      return {SlabKind::nibble, 8};
    case WeightType::q4_1:
    case WeightType::q4_k:
      return {SlabKind::nibble_min, 0};
    case WeightType::q5_0:
      return {SlabKind::five, 16};
    case WeightType::mxfp4:
      return {SlabKind::five, 12};  // levels -12 .. 12
    case WeightType::q5_1:
    case WeightType::q5_k:
      return {SlabKind::five_min, 0};
    case WeightType::q8_0:
    case WeightType::iq4_nl:
    case WeightType::iq4_xs:
      return {SlabKind::byte, 0};
    case WeightType::q3_k:
      return {SlabKind::group, 4};
    case WeightType::q6_k:
      return {SlabKind::group, 32};
    case WeightType::q2_k:
      return {SlabKind::group_min, 0};
    case WeightType::f32:
    case WeightType::f16:
    case WeightType::bf16:
    case WeightType::as_stored:
      break;
  }
  return {SlabKind::real, 0};
}

std::size_t slab_bytes(SlabKind kind, std::int64_t columns) noexcept {
  const std::size_t blocks = static_cast<std::size_t>((columns + 31) / 32);
  switch (kind) {
    case SlabKind::nibble:
    case SlabKind::five:
      return blocks * sizeof(SlabScaled);
    case SlabKind::nibble_min:
    case SlabKind::five_min:
      return blocks * sizeof(SlabMin);
    case SlabKind::byte:
      return blocks * sizeof(SlabByte);
    case SlabKind::group:
    case SlabKind::group_min:
      return blocks * sizeof(SlabGroup);
    case SlabKind::real:
      break;
  }
  return static_cast<std::size_t>(columns + 1) * panel_rows * sizeof(float);
}

}  // namespace llminfer::cpu
