#include "device/cpu/kernels.h"

#include <algorithm>
#include <array>

#include "core/cpu_info.h"
#include "core/fail.h"
#include "device/cpu/avx2/avx2.h"
#include "device/cpu/avx512/avx512.h"
#include "device/cpu/avxvnni/avxvnni.h"
#include "device/cpu/neon/neon.h"
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
  avx2::add_rare_gemv(kernels);
#endif
  return kernels;
}

/// AVX2 with products of bytes by VNNI on 256 bits.
Kernels avxvnni_kernels() noexcept {
  Kernels kernels = avx2_kernels();
  kernels.name = "avxvnni";
#if LLMINFER_CPU_X86
  avxvnni::add_vnni(kernels);
  avxvnni::add_packed(kernels);
#endif
  return kernels;
}

/// On 512 bits.
Kernels avx512_kernels() noexcept {
  Kernels kernels = avx2_kernels();
  kernels.name = "avx512";
#if LLMINFER_CPU_X86
  avx512::add_float_kernels(kernels);
  avx512::add_unpackers(kernels);
  avx512::add_group_tiles(kernels);
  avx512::add_packed(kernels);
#endif
  return kernels;
}

/// With dot products of bf16, which are the default of its attention.
Kernels avx512bf16_kernels() noexcept {
  Kernels kernels = avx512_kernels();
  kernels.name = "avx512bf16";
#if LLMINFER_CPU_X86
  avx512::add_bf16_attention(kernels);
#endif
  return kernels;
}

/// With products of tiles: of bytes, and of bf16, which are the default of its attention.
Kernels amx_kernels() noexcept {
  Kernels kernels = avx512_kernels();
  kernels.name = "amx";
#if LLMINFER_CPU_X86
  avx512::add_amx_products(kernels);
  avx512::add_amx_attention(kernels);
#endif
  return kernels;
}

/// aarch64's baseline.
Kernels neon_kernels() noexcept {
  Kernels kernels = portable_kernels();
  kernels.name = "neon";
#if LLMINFER_CPU_NEON
  neon::add_float_kernels(kernels);
  neon::add_unpackers(kernels);
  neon::add_plain(kernels);
#endif
  return kernels;
}

/// NEON with dot products of bytes.
Kernels dotprod_kernels() noexcept {
  Kernels kernels = neon_kernels();
  kernels.name = "dotprod";
#if LLMINFER_CPU_NEON_DOT
  neon::add_dotprod(kernels);
#endif
  return kernels;
}

/// NEON with products of 2 x 8 bytes by 8 x 2.
Kernels i8mm_kernels() noexcept {
  Kernels kernels = neon_kernels();
  kernels.name = "i8mm";
#if LLMINFER_CPU_NEON_DOT
  neon::add_i8mm(kernels);
#endif
  return kernels;
}

constexpr std::int64_t most_cache = 4 * 1024 * 1024;

/// An instruction set by name, whether this processor and build have it. In falling order of speed.
struct InstructionSet {
  std::string_view name;
  bool here = false;
  Kernels (*kernels)() noexcept = nullptr;
  bool (*granted)() noexcept = nullptr;  ///< asks the operating system; null: there is no need
};

std::array<InstructionSet, 9> instruction_sets() {
  const core::CpuFeatures f = core::detect_cpu().features;
  const bool avx2 = LLMINFER_CPU_X86 != 0 && f.avx2 && f.fma && f.f16c;
  const bool avx512 = avx2 && f.avx512f && f.avx512bw && f.avx512dq && f.avx512vl && f.avx512_vnni;
  const bool neon = LLMINFER_CPU_NEON != 0, dotprod = LLMINFER_CPU_NEON_DOT != 0 && f.neon_dotprod;
  return {{{"amx", avx512 && f.avx512_bf16 && f.amx_tile && f.amx_int8 && f.amx_bf16, amx_kernels, core::request_tiles},
           {"avx512bf16", avx512 && f.avx512_bf16, avx512bf16_kernels},
           {"avx512", avx512, avx512_kernels},
           {"avxvnni", avx2 && f.avx_vnni, avxvnni_kernels},
           {"avx2", avx2, avx2_kernels},
           {"i8mm", dotprod && f.neon_i8mm, i8mm_kernels},
           {"dotprod", dotprod, dotprod_kernels},
           {"neon", neon, neon_kernels},
           {"portable", true, portable_kernels}}};
}

/// Columns in groups are 1.4 times as large and get a third of the L2 cache, where that is more than the usual chunk.
Kernels sized(Kernels kernels) {
  const auto cache = static_cast<std::int64_t>(core::detect_cpu().caches.l2);
  if (kernels.least_grouped > 0) kernels.chunk_bytes = std::max(kernels.chunk_bytes, std::min(cache, most_cache) / 4);
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
  for (const InstructionSet& set : instruction_sets()) {
    const bool automatic = name == "auto";
    if (automatic ? !set.here : name != set.name) continue;
    if (!set.here) core::fail(ErrorCode::unavailable, "isa: this processor or build has no \"{}\"", name);
    if (set.granted == nullptr || set.granted()) return sized(set.kernels());
    if (!automatic) core::fail(ErrorCode::unavailable, "isa: the operating system does not grant \"{}\"", name);
  }
  core::fail(ErrorCode::invalid_argument,
             "isa: \"{}\" is unknown; known are auto, portable, avx2, avxvnni, avx512, avx512bf16, amx, neon, dotprod, "
             "i8mm",
             name);
}

}  // namespace llminfer::cpu
