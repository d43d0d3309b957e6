// Single instructions that C++ has no word for.
#pragma once

namespace llminfer::cuda {

/// (a & mask) | bits in one instruction.
__device__ inline unsigned mask_or(unsigned a, unsigned mask, unsigned bits) {
  unsigned r;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(a), "r"(mask), "r"(bits));
  return r;
}

/// Bytes of a and b that the four nibbles of the selector name; one with its upper bit set gives the sign of its byte
/// eight times. (__byte_perm ignores that bit.)
__device__ inline unsigned prmt(unsigned a, unsigned b, unsigned selector) {
  unsigned r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
  return r;
}

/// Bits of a half that is exactly this.
__host__ __device__ constexpr unsigned half_bits(float v) {
  const unsigned sign = v < 0 ? 0x8000U : 0U;
  if (v < 0) v = -v;
  if (v == 0) return sign;
  int exponent = 0;
  for (; v >= 2; v /= 2) ++exponent;
  for (; v < 1 && exponent > -14; v *= 2) --exponent;
  const auto mantissa = static_cast<unsigned>(v * 1024);
  return sign | (v < 1 ? mantissa : static_cast<unsigned>(exponent + 15) << 10 | (mantissa - 1024));
}

// Pairs of halves in 32 bits.
__host__ __device__ constexpr unsigned pair_bits(float low, float high) {
  return half_bits(low) | half_bits(high) << 16;
}
__device__ inline unsigned sub_halves(unsigned a, unsigned b) {
  unsigned r;
  asm("sub.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
__device__ inline unsigned fma_halves(unsigned a, unsigned b, unsigned c) {
  unsigned r;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
__device__ inline unsigned mul_halves(unsigned a, unsigned b) {
  unsigned r;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
/// Each half of a pair twice.
__device__ inline void spread_pair(unsigned pair, unsigned& first, unsigned& second) {
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; mov.b32 %0, {low, low}; mov.b32 %1, {high, high}; }"
      : "=r"(first), "=r"(second)
      : "r"(pair));
}
__device__ inline unsigned pair_of_halves(float low, float high) {
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

__device__ inline float2 floats_of_pair(unsigned pair) {
  float2 r;
  asm("{ .reg .f16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
      : "=f"(r.x), "=f"(r.y)
      : "r"(pair));
  return r;
}

// Pairs of bfloat16 in 32 bits.
__device__ inline unsigned pair_of_bf16(float low, float high) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
__device__ inline float2 floats_of_bf16(unsigned pair) {
  return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000U));
}

/// Sums of two halves as those of two bfloat16.
__device__ inline void split_bf16(unsigned halves, unsigned more, unsigned& upper, unsigned& rest) {
  const float2 a = floats_of_pair(halves), b = floats_of_pair(more), v = make_float2(a.x + b.x, a.y + b.y);
  upper = pair_of_bf16(v.x, v.y);
  const float2 there = floats_of_bf16(upper);
  rest = pair_of_bf16(v.x - there.x, v.y - there.y);
}

/// d = A B + c: A 16 x 16 halves, B 16 x 8 halves, d and c 16 x 8 floats, spread over the warp as mma.m16n8k16 has
/// them.
__device__ inline void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, const float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}
/// The same with pairs of bfloat16.
__device__ inline void multiply_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                                     const float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

/// d += A B: A 16 x 16 halves, B 16 x 8 halves, d 16 x 8 floats, spread over the warp as mma.m16n8k16 has them.
__device__ inline void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// The same with pairs of bfloat16.
__device__ inline void multiply_add_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Four matrices of 8 x 8 halves from shared memory: lane 8 m + r names row r (16 bytes) of matrix m. Lane 4 g + t gets
/// of each the elements 2 t and 2 t + 1 of row g.
__device__ inline void load_matrices(unsigned (&d)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}
/// Transposed: elements g of rows 2 t and 2 t + 1.
__device__ inline void load_matrices_across(unsigned (&d)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// Eight rows of eight halves, of which lane 4 g + t has elements 2 t and 2 t + 1 of row g, become columns.
__device__ inline unsigned transposed(unsigned rows) {
  unsigned d;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(rows));
  return d;
}

/// The value of the lane whose number differs in the bits of `d`. (__shfl_xor_sync moves floats to integers and back.)
__device__ inline float from_lane_across(float v, int d) {
  float r;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(r) : "f"(v), "r"(d));
  return r;
}

/// 2^v: about 2^-22 of it off, 0 for -infinity.
__device__ inline float power_of_two(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}

}  // namespace llminfer::cuda
