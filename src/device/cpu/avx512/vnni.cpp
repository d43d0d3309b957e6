// Products of tiles for AVX-512 with VNNI: the 16 rows of a panel are one vector.
#include "device/cpu/avx512/avx512.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX512_BEGIN
namespace llminfer::cpu::avx512 {
namespace {
#include "device/cpu/avx512/levels.h"
//
#include "device/cpu/avx512/dots.h"
//
#include "device/cpu/kernels/dots.inc"
//
#include "device/cpu/kernels/dot.inc"
}  // namespace
}  // namespace llminfer::cpu::avx512
LLMINFER_TARGET_END

namespace llminfer::cpu::avx512 {

void add_vnni(Kernels& kernels) noexcept {
#include "device/cpu/kernels/dot_table.inc"
}

}  // namespace llminfer::cpu::avx512
#endif
