// Products of one and a few columns for AVX-VNNI (processors without AVX-512), levels unpacked in registers.
#include "device/cpu/avxvnni/avxvnni.h"
#include "device/cpu/target.h"
#include "quant/iq4.h"
#include "quant/mxfp4.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVXVNNI_BEGIN
namespace llminfer::cpu::avxvnni {
namespace {
#include "device/cpu/avx2/levels.h"
//
#include "device/cpu/avxvnni/dots.h"
//
#include "device/cpu/kernels/packed_formats.inc"
//
#include "device/cpu/kernels/panel_walk.inc"
//
#include "device/cpu/kernels/packed.inc"
}  // namespace
}  // namespace llminfer::cpu::avxvnni
LLMINFER_TARGET_END

namespace llminfer::cpu::avxvnni {

void add_packed(Kernels& kernels) noexcept {
#include "device/cpu/kernels/packed_table.inc"
}

}  // namespace llminfer::cpu::avxvnni
#endif
