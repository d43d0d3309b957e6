// Panels to slabs on AVX2.
#include "device/cpu/avx2/avx2.h"
#include "device/cpu/target.h"
#include "quant/iq4.h"
#include "quant/mxfp4.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX2_BEGIN
namespace llminfer::cpu::avx2 {
namespace {
#include "device/cpu/avx2/levels.h"
//
#include "device/cpu/kernels/unpack.inc"
}  // namespace
}  // namespace llminfer::cpu::avx2
LLMINFER_TARGET_END

namespace llminfer::cpu::avx2 {

void add_unpackers(Kernels& kernels) noexcept {
#include "device/cpu/kernels/unpack_table.inc"
}

}  // namespace llminfer::cpu::avx2
#endif
