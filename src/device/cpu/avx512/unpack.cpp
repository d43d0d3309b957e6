// Panels to slabs on AVX-512.
#include "device/cpu/avx512/avx512.h"
#include "device/cpu/target.h"
#include "quant/iq4.h"
#include "quant/mxfp4.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX512_BEGIN
namespace llminfer::cpu::avx512 {
namespace {
#include "device/cpu/avx512/levels.h"
//
#include "device/cpu/kernels/unpack.inc"
}  // namespace
}  // namespace llminfer::cpu::avx512
LLMINFER_TARGET_END

namespace llminfer::cpu::avx512 {

void add_unpackers(Kernels& kernels) noexcept {
#include "device/cpu/kernels/unpack_table.inc"
}

}  // namespace llminfer::cpu::avx512
#endif
