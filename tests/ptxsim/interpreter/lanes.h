// Handlers made of a function of one lane's values. F is a stateless function object.
//
// Most instructions run for all lanes of a warp or nearly all: those are computed for 32 lanes into a place of their
// own (a result may be one of the sources), in loops without a branch that the compiler turns into vector code. F must
// therefore be defined for whatever a register may hold.
#pragma once

#include <cstdint>
#include <cstring>

#include "interpreter/module.h"
#include "interpreter/warp.h"

namespace ptxsim {

template <class F>
void for_lanes(std::uint32_t mask, F f) {
  if (mask == ~0U) {
    for (std::uint32_t l = 0; l < 32; ++l) f(l);
  } else {
    for (; mask != 0; mask &= mask - 1) f(static_cast<std::uint32_t>(__builtin_ctz(mask)));
  }
}

/// d[l] = f(l) for the lanes of the mask. Few lanes are done one by one.
template <class D, class F>
inline void set_lanes(D* d, std::uint32_t mask, F f) {
  if (mask != ~0U && __builtin_popcount(mask) < 8) {
    for_lanes(mask, [&](std::uint32_t l) { d[l] = f(l); });
    return;
  }
  D out[32];
  for (std::uint32_t l = 0; l < 32; ++l) out[l] = f(l);
  if (mask != ~0U) {
    for (std::uint32_t l = 0; l < 32; ++l) out[l] = (mask >> l & 1U) != 0 ? out[l] : d[l];
  }
  std::memcpy(d, out, sizeof(out));
}

/// The lanes for which f(l) holds.
template <class F>
inline std::uint32_t lanes_where(F f) {
  std::uint32_t bits[32];
  for (std::uint32_t l = 0; l < 32; ++l) bits[l] = (f(l) ? 1U : 0U) << l;
  std::uint32_t all = 0;
  for (const std::uint32_t b : bits) all |= b;
  return all;
}

template <class D, class A, class F>
void map1(Warp& w, const Instruction& i, std::uint32_t mask) {
  const A* a = w.lanes<A>(i.operands[1]);
  set_lanes(w.lanes<D>(i.operands[0]), mask, [=](std::uint32_t l) { return static_cast<D>(F{}(a[l])); });
}

template <class D, class A, class B, class F>
void map2(Warp& w, const Instruction& i, std::uint32_t mask) {
  const A* a = w.lanes<A>(i.operands[1]);
  const B* b = w.lanes<B>(i.operands[2]);
  set_lanes(w.lanes<D>(i.operands[0]), mask, [=](std::uint32_t l) { return static_cast<D>(F{}(a[l], b[l])); });
}

template <class D, class A, class B, class C, class F>
void map3(Warp& w, const Instruction& i, std::uint32_t mask) {
  const A* a = w.lanes<A>(i.operands[1]);
  const B* b = w.lanes<B>(i.operands[2]);
  const C* c = w.lanes<C>(i.operands[3]);
  set_lanes(w.lanes<D>(i.operands[0]), mask, [=](std::uint32_t l) { return static_cast<D>(F{}(a[l], b[l], c[l])); });
}

/// One handler a type of integer; null for others.
template <template <class, class> class Map, class F>
Execute for_integers(Type t) {
  switch (t) {
    case Type::b16:
    case Type::u16:
      return &Map<std::uint16_t, F>::run;
    case Type::s16:
      return &Map<std::int16_t, F>::run;
    case Type::b32:
    case Type::u32:
      return &Map<std::uint32_t, F>::run;
    case Type::s32:
      return &Map<std::int32_t, F>::run;
    case Type::b64:
    case Type::u64:
      return &Map<std::uint64_t, F>::run;
    case Type::s64:
      return &Map<std::int64_t, F>::run;
    default:
      return nullptr;
  }
}

template <template <class, class> class Map, class F>
Execute for_floats(Type t) {
  if (t == Type::f32) return &Map<float, F>::run;
  if (t == Type::f64) return &Map<double, F>::run;
  return nullptr;
}

template <class T, class F>
struct Same1 {
  static void run(Warp& w, const Instruction& i, std::uint32_t mask) { map1<T, T, F>(w, i, mask); }
};
template <class T, class F>
struct Same2 {
  static void run(Warp& w, const Instruction& i, std::uint32_t mask) { map2<T, T, T, F>(w, i, mask); }
};
template <class T, class F>
struct Same3 {
  static void run(Warp& w, const Instruction& i, std::uint32_t mask) { map3<T, T, T, T, F>(w, i, mask); }
};

}  // namespace ptxsim
