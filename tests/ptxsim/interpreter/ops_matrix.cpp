// ldmatrix, stmatrix, movmatrix and mma.sync. Lane layouts: PTX ISA, "Matrix fragments for mma.m16n8k16" and its
// neighbours; below g is lane / 4 and t is lane % 4.
#include <algorithm>
#include <cstring>

#include "interpreter/access.h"
#include "interpreter/block.h"
#include "interpreter/decoder.h"
#include "interpreter/floats.h"
#include "interpreter/lanes.h"

namespace ptxsim {
namespace {

void need_whole_warp(Warp& w, const Instruction& i, std::uint32_t mask) {
  if (mask != ~0U) w.block().launch().abort(Check::sync_mask, i, "not all lanes of the warp take part");
}

/// Row addresses of the matrices: lanes 8 m .. 8 m + 7 have those of matrix m. `space`: what is checked and counted.
void rows_of(Warp& w, const Instruction& i, const Operand& address, AccessKind kind, Access& a) {
  const std::uint32_t lanes = 8U * i.vector;
  a.mask = lanes == 32 ? ~0U : (1U << lanes) - 1U;
  a.bytes = 16;
  a.space = Space::shared;
  a.kind = kind;
  gather_addresses(w, i, address, i.offset, a);
  check_access(w, i, a);
}

/// flags bit 2: transposed. operands: registers, then the address.
void load_matrix(Warp& w, const Instruction& i, std::uint32_t mask) {
  need_whole_warp(w, i, mask);
  Access a;
  rows_of(w, i, i.operands[i.vector], AccessKind::read, a);
  const std::byte* shared = w.block().shared().data();
  for (std::uint32_t m = 0; m < i.vector; ++m) {
    std::uint32_t* d = w.lanes<std::uint32_t>(i.operands[m]);
    for (std::uint32_t l = 0; l < 32; ++l) {
      std::uint16_t pair[2];
      for (std::uint32_t e = 0; e < 2; ++e) {
        const std::uint32_t row = (i.flags & 4) != 0 ? 2 * (l % 4) + e : l / 4;
        const std::uint32_t column = (i.flags & 4) != 0 ? l / 4 : 2 * (l % 4) + e;
        std::memcpy(&pair[e], shared + a.address[8 * m + row] + 2 * column, 2);
      }
      d[l] = pair[0] | static_cast<std::uint32_t>(pair[1]) << 16;
    }
  }
}

void store_matrix(Warp& w, const Instruction& i, std::uint32_t mask) {
  need_whole_warp(w, i, mask);
  Access a;
  rows_of(w, i, i.operands[i.vector], AccessKind::write, a);
  std::byte* shared = w.block().shared().data();
  for (std::uint32_t m = 0; m < i.vector; ++m) {
    const std::uint32_t* d = w.lanes<std::uint32_t>(i.operands[m]);
    for (std::uint32_t l = 0; l < 32; ++l) {
      for (std::uint32_t e = 0; e < 2; ++e) {
        const std::uint32_t row = (i.flags & 4) != 0 ? 2 * (l % 4) + e : l / 4;
        const std::uint32_t column = (i.flags & 4) != 0 ? l / 4 : 2 * (l % 4) + e;
        const auto half = static_cast<std::uint16_t>(d[l] >> (16 * e));
        std::memcpy(shared + a.address[8 * m + row] + 2 * column, &half, 2);
      }
    }
  }
}

/// A matrix of 8 x 8 in a register, transposed.
void move_matrix(Warp& w, const Instruction& i, std::uint32_t mask) {
  need_whole_warp(w, i, mask);
  std::uint16_t from[64];
  std::memcpy(from, w.lanes<std::uint16_t>(i.operands[1]), sizeof from);
  std::uint16_t* d = w.lanes<std::uint16_t>(i.operands[0]);
  for (std::size_t e = 0; e < 64; ++e) d[e] = from[e % 8 * 8 + e / 8];
}

/// Registers of A (4), B (2) and C (4) start here in the operands; D comes first.
constexpr std::size_t at_a = 4;

/// The halves of a register, lane by lane, as floats: lane l has elements 2 l and 2 l + 1. For A and B these are eight
/// rows (of B: columns) of eight values.
template <class H>
void widen_lanes(const std::uint16_t* v, float (&out)[64]) {
  for (int e = 0; e < 64; ++e) out[e] = H::widen(v[e]);
}

/// 16 x 8 += 16 x K by K x 8, all in float. Products of 16-bit floats are exact.
template <class H, int K>
void multiply_floats(Warp& w, const Instruction& i, std::uint32_t mask) {
  need_whole_warp(w, i, mask);
  constexpr std::size_t a_registers = K / 4, b_registers = K / 8;
  float a[16][K];
  float b[K][8];
  float values[64];
  float out[4][32];
  for (std::size_t r = 0; r < a_registers; ++r) {
    widen_lanes<H>(w.lanes<std::uint16_t>(i.operands[at_a + r]), values);
    for (std::size_t g = 0; g < 8; ++g) std::copy_n(values + 8 * g, 8, a[g + 8 * (r % 2)] + 8 * (r / 2));
  }
  for (std::size_t r = 0; r < b_registers; ++r) {
    widen_lanes<H>(w.lanes<std::uint16_t>(i.operands[at_a + a_registers + r]), values);
    for (std::size_t k = 0; k < 8; ++k) {
      for (std::size_t n = 0; n < 8; ++n) b[8 * r + k][n] = values[8 * n + k];
    }
  }
  // Registers 0 and 1 have the even and odd columns of the upper half, 2 and 3 those of the lower.
  for (std::size_t half = 0; half < 2; ++half) {
    float sum[8][8] = {};
    for (std::size_t m = 0; m < 8; ++m) {
      for (std::size_t k = 0; k < K; ++k) {
        for (std::size_t n = 0; n < 8; ++n) sum[m][n] += a[8 * half + m][k] * b[k][n];
      }
    }
    const float* flat = &sum[0][0];
    const std::size_t c = at_a + a_registers + b_registers + 2 * half;
    float even[32], odd[32];
    const float* c_even = w.lanes<float>(i.operands[c]);
    const float* c_odd = w.lanes<float>(i.operands[c + 1]);
    for (std::size_t l = 0; l < 32; ++l) even[l] = c_even[l] + flat[2 * l];
    for (std::size_t l = 0; l < 32; ++l) odd[l] = c_odd[l] + flat[2 * l + 1];
    std::copy_n(even, 32, out[2 * half]);
    std::copy_n(odd, 32, out[2 * half + 1]);
  }
  for (std::size_t r = 0; r < 4; ++r) std::copy_n(out[r], 32, w.lanes<float>(i.operands[r]));
}

/// flags bit 2: A is signed, bit 3: B is.
template <int K>
void multiply_bytes(Warp& w, const Instruction& i, std::uint32_t mask) {
  need_whole_warp(w, i, mask);
  constexpr std::size_t a_registers = K / 8, b_registers = K / 16;
  std::int32_t a[16][K];
  std::int32_t b[K][8];
  const auto element = [&](std::uint32_t v, std::uint32_t e, bool sign) {
    const auto byte = static_cast<std::uint8_t>(v >> (8 * e));
    return sign ? static_cast<std::int32_t>(static_cast<std::int8_t>(byte)) : static_cast<std::int32_t>(byte);
  };
  for (std::size_t r = 0; r < a_registers; ++r) {
    const std::uint32_t* v = w.lanes<std::uint32_t>(i.operands[at_a + r]);
    for (std::uint32_t l = 0; l < 32; ++l) {
      for (std::uint32_t e = 0; e < 4; ++e) {
        a[l / 4 + 8 * (r % 2)][4 * (l % 4) + 16 * (r / 2) + e] = element(v[l], e, (i.flags & 4) != 0);
      }
    }
  }
  for (std::size_t r = 0; r < b_registers; ++r) {
    const std::uint32_t* v = w.lanes<std::uint32_t>(i.operands[at_a + a_registers + r]);
    for (std::uint32_t l = 0; l < 32; ++l) {
      for (std::uint32_t e = 0; e < 4; ++e) b[4 * (l % 4) + 16 * r + e][l / 4] = element(v[l], e, (i.flags & 8) != 0);
    }
  }
  std::uint32_t out[4][32];
  for (std::size_t r = 0; r < 4; ++r) {
    const std::uint32_t* c = w.lanes<std::uint32_t>(i.operands[at_a + a_registers + b_registers + r]);
    for (std::uint32_t l = 0; l < 32; ++l) {
      std::int32_t sum = 0;
      for (int k = 0; k < K; ++k) sum += a[l / 4 + 8 * (r / 2)][k] * b[k][2 * (l % 4) + r % 2];
      out[r][l] = c[l] + static_cast<std::uint32_t>(sum);
    }
  }
  for (std::size_t r = 0; r < 4; ++r) std::copy_n(out[r], 32, w.lanes<std::uint32_t>(i.operands[r]));
}

bool decode_mma(const OpText& t, Instruction& i) {
  if (!t.has("row") || !t.has("col") || t.has("sp")) return false;
  std::vector<Type> types;
  for (std::string_view p : t.parts) {
    const Type x = type_named(p);
    if (x != Type::none) types.push_back(x);
  }
  if (types.size() != 4) return false;
  const Type a = types[1], b = types[2];
  const bool real = a == Type::f16 || a == Type::bf16;
  const int k = t.has("m16n8k32") ? 32 : t.has("m16n8k16") ? 16 : t.has("m16n8k8") ? 8 : 0;
  if (real && a == b && types[0] == Type::f32 && types[3] == Type::f32) {
    if (k == 16) i.run = a == Type::f16 ? &multiply_floats<F16, 16> : &multiply_floats<BF16, 16>;
    if (k == 8) i.run = a == Type::f16 ? &multiply_floats<F16, 8> : &multiply_floats<BF16, 8>;
  }
  if (bytes_of(a) == 1 && bytes_of(b) == 1 && types[0] == Type::s32 && !t.has("satfinite")) {
    if (k == 32) i.run = &multiply_bytes<32>;
    if (k == 16) i.run = &multiply_bytes<16>;
    i.flags = static_cast<std::uint8_t>((a == Type::s8 ? 4 : 0) | (b == Type::s8 ? 8 : 0));
  }
  if (i.run == nullptr) return false;
  i.mode = 2 * 16 * 8 * k;  // FLOPs
  for (std::size_t n = 0; n < 4; ++n) t.add_list(i, n, 4);
  return true;
}

}  // namespace

bool decode_matrix(const OpText& t, Instruction& i) {
  i.op_class = OpClass::matrix;
  if (t.name == "mma" && t.has("sync")) return decode_mma(t, i);
  if (t.name == "movmatrix" && t.has("m8n8") && t.has("trans")) {
    i.run = &move_matrix;
    t.add_all(i, 0, 4);
    return i.count == 2;
  }
  const bool load = t.name == "ldmatrix";
  if ((!load && t.name != "stmatrix") || !t.has("m8n8")) return false;
  i.op_class = OpClass::shared;
  i.type = t.last;
  i.vector = t.has("x4") ? 4 : t.has("x2") ? 2 : 1;
  i.flags = static_cast<std::uint8_t>((t.has("trans") ? 4 : 0) | (load ? 0 : 1));
  i.run = load ? &load_matrix : &store_matrix;
  t.add_list(i, load ? 0 : 1, 4);
  t.add_address(i, load ? 1 : 0, i.offset);
  return i.count == i.vector + 1;
}

}  // namespace ptxsim
