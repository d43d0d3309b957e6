#include "device/cpu/kernels.h"

#include "core/cpu_info.h"
#include "core/fail.h"
#include "device/cpu/avx2/avx2.h"
#include "device/cpu/portable/float_kernels.h"
#include "device/cpu/target.h"

namespace llminfer::cpu {
namespace {

Kernels portable_kernels() noexcept {
  Kernels kernels;
  kernels.name = "portable";
  portable::add_float_kernels(kernels);
  portable::add_matmul_kernels(kernels);
  return kernels;
}

bool has_avx2(const core::CpuFeatures& features) noexcept {
  return LLMINFER_CPU_X86 != 0 && features.avx2 && features.fma && features.f16c;
}

/// Begins as the portable table, so that what has no AVX2 version still works.
Kernels avx2_kernels() noexcept {
  Kernels kernels = portable_kernels();
  kernels.name = "avx2";
#if LLMINFER_CPU_X86
  avx2::add_float_kernels(kernels);
  avx2::add_unpackers(kernels);
  avx2::add_tiles(kernels);
  avx2::add_few(kernels);
  avx2::add_gemv(kernels);
#endif
  return kernels;
}

}  // namespace

UnpackArgs unpack_args(const PackedShape& shape, const std::byte* panel, std::int64_t first, std::int64_t blocks,
                       std::byte* slab) noexcept {
  const PanelLayout& layout = layout_of(shape.type);
  const std::byte* words = panel + first * layout.word_count() * static_cast<std::int64_t>(line_bytes);
  const std::byte* small = panel + shape.small_plane + first * layout.small_bytes() * panel_rows;
  return {&shape, panel, first, blocks, words, small, slab};
}

Kernels choose_kernels(std::string_view name) {
  const bool avx2 = has_avx2(core::detect_cpu().features);
  if (name == "auto") return avx2 ? avx2_kernels() : portable_kernels();
  if (name == "portable") return portable_kernels();
  if (name == "avx2") {
    if (!avx2) core::fail(ErrorCode::unavailable, "isa: this processor or build has no \"avx2\"");
    return avx2_kernels();
  }
  core::fail(ErrorCode::invalid_argument, "isa: \"{}\" is unknown; known are auto, portable, avx2", name);
}

}  // namespace llminfer::cpu
