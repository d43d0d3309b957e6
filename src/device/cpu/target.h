// Regions of code for one instruction set inside a file that is otherwise compiled for the baseline. Between BEGIN and
// END stand only static functions, no template with external linkage, and no inline function of a header may be called
// that another file could share: the linker would keep one copy, perhaps the wrong one. Every header is included before
// BEGIN.
#pragma once

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define LLMINFER_CPU_X86 1
#if defined(__clang__)
#define LLMINFER_AVX2_BEGIN \
  _Pragma("clang attribute push(__attribute__((target(\"avx2,fma,f16c\"))), apply_to = function)")
#define LLMINFER_AVX512_BEGIN \
  _Pragma("clang attribute push(__attribute__((target(\"avx512bw,avx512vl,avx512vnni\"))), apply_to = function)")
#define LLMINFER_AVX512_BF16_BEGIN \
  _Pragma("clang attribute push(__attribute__((target(\"avx512vl,avx512vnni,avx512bf16\"))), apply_to = function)")
// _Pragma takes one literal, which this line would be too long for.
#define LLMINFER_PRAGMA(...) _Pragma(#__VA_ARGS__)
#define LLMINFER_AMX_BEGIN              \
  LLMINFER_PRAGMA(clang attribute push( \
      __attribute__((target("avx512dq,avx512vl,avx512vnni,avx512bf16,amx-int8,amx-bf16"))), apply_to = function))
#define LLMINFER_AVXVNNI_BEGIN \
  _Pragma("clang attribute push(__attribute__((target(\"avx2,fma,f16c,avxvnni\"))), apply_to = function)")
#define LLMINFER_TARGET_END _Pragma("clang attribute pop")
#else
#define LLMINFER_AVX2_BEGIN _Pragma("GCC push_options") _Pragma("GCC target(\"avx2,fma,f16c\")")
#define LLMINFER_AVX512_BEGIN \
  _Pragma("GCC push_options") _Pragma("GCC target(\"fma,f16c,avx512bw,avx512vl,avx512vnni\")")
#define LLMINFER_AVX512_BF16_BEGIN \
  _Pragma("GCC push_options") _Pragma("GCC target(\"fma,f16c,avx512bw,avx512vl,avx512vnni,avx512bf16\")")
#define LLMINFER_AMX_BEGIN    \
  _Pragma("GCC push_options") \
      _Pragma("GCC target(\"fma,f16c,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,amx-tile,amx-int8,amx-bf16\")")
#define LLMINFER_AVXVNNI_BEGIN _Pragma("GCC push_options") _Pragma("GCC target(\"avx2,fma,f16c,avxvnni\")")
#define LLMINFER_TARGET_END _Pragma("GCC pop_options")
#endif
#else
#define LLMINFER_CPU_X86 0
#endif

// NEON with fused multiply-add and 16-bit floats is aarch64's baseline. What came later needs a compiler whose
// arm_neon.h declares it for regions.
#if defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#define LLMINFER_CPU_NEON 1
#if !defined(__clang__)
#define LLMINFER_CPU_NEON_DOT 1
#define LLMINFER_DOTPROD_BEGIN _Pragma("GCC push_options") _Pragma("GCC target(\"arch=armv8.2-a+dotprod\")")
#define LLMINFER_I8MM_BEGIN _Pragma("GCC push_options") _Pragma("GCC target(\"arch=armv8.2-a+dotprod+i8mm\")")
#define LLMINFER_NEON_END _Pragma("GCC pop_options")
#elif __clang_major__ >= 16
#define LLMINFER_CPU_NEON_DOT 1
#define LLMINFER_DOTPROD_BEGIN \
  _Pragma("clang attribute push(__attribute__((target(\"dotprod\"))), apply_to = function)")
#define LLMINFER_I8MM_BEGIN \
  _Pragma("clang attribute push(__attribute__((target(\"dotprod,i8mm\"))), apply_to = function)")
#define LLMINFER_NEON_END _Pragma("clang attribute pop")
#else
#define LLMINFER_CPU_NEON_DOT 0
#endif
#else
#define LLMINFER_CPU_NEON 0
#define LLMINFER_CPU_NEON_DOT 0
#endif
