// Products of tiles for AVX-VNNI (processors without AVX-512): the 16 rows of a panel are two vectors.
#include "device/cpu/avxvnni/avxvnni.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVXVNNI_BEGIN
namespace llminfer::cpu::avxvnni {
namespace {
#include "device/cpu/avx2/levels.h"
//
#include "device/cpu/avxvnni/dots.h"
//
#include "device/cpu/kernels/dots.inc"
//
#include "device/cpu/kernels/dot.inc"
}  // namespace
}  // namespace llminfer::cpu::avxvnni
LLMINFER_TARGET_END

namespace llminfer::cpu::avxvnni {

void add_vnni(Kernels& kernels) noexcept {
#include "device/cpu/kernels/dot_table.inc"
}

}  // namespace llminfer::cpu::avxvnni
#endif
