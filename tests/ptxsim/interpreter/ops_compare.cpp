// setp and selp.
#include <cmath>

#include "interpreter/decoder.h"
#include "interpreter/floats.h"
#include "interpreter/lanes.h"

namespace ptxsim {
namespace {

struct Equal {
  template <class T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct Unequal {  // for floats: ordered and unequal
  template <class T>
  bool operator()(T a, T b) const {
    return a < b || a > b;
  }
};
struct Less {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct Numbers {
  bool operator()(double a, double b) const { return !std::isnan(a) && !std::isnan(b); }
};

/// The opposite of F: true as well where one is NaN.
template <class F>
struct Opposite {
  template <class T>
  bool operator()(T a, T b) const {
    return !F{}(a, b);
  }
};

/// operands: p, q, a, b, c. mode: how the result joins c (0 no, 1 and, 2 or, 3 xor); flags bit 2: c is negated.
void store(Warp& w, const Instruction& i, std::uint32_t mask, std::uint32_t result) {
  std::uint32_t other = ~result;
  if (i.mode != 0) {
    const std::uint32_t c = (i.flags & 4) != 0 ? ~w.predicate(i.operands[4]) : w.predicate(i.operands[4]);
    result = i.mode == 1 ? result & c : i.mode == 2 ? result | c : result ^ c;
    other = i.mode == 1 ? other & c : i.mode == 2 ? other | c : other ^ c;
  }
  w.set_predicate(i.operands[1], other, mask);
  w.set_predicate(i.operands[0], result, mask);
}

template <class T, class F>
struct Compare {
  static void run(Warp& w, const Instruction& i, std::uint32_t mask) {
    const T* a = w.lanes<T>(i.operands[2]);
    const T* b = w.lanes<T>(i.operands[3]);
    store(w, i, mask, lanes_where([=](std::uint32_t l) { return F{}(a[l], b[l]); }));
  }
};

template <class H, class F>
void compare_half(Warp& w, const Instruction& i, std::uint32_t mask) {
  const std::uint16_t* a = w.lanes<std::uint16_t>(i.operands[2]);
  const std::uint16_t* b = w.lanes<std::uint16_t>(i.operands[3]);
  store(w, i, mask, lanes_where([=](std::uint32_t l) { return F{}(H::widen(a[l]), H::widen(b[l])); }));
}

template <class F>
Execute for_type(Type t) {
  if (const Execute e = for_integers<Compare, F>(t)) return e;
  if (const Execute e = for_floats<Compare, F>(t)) return e;
  if (t == Type::f16) return &compare_half<F16, F>;
  if (t == Type::bf16) return &compare_half<BF16, F>;
  return nullptr;
}

Execute comparison(std::string_view how, Type t) {
  const bool real = is_float(t) || t == Type::f16 || t == Type::bf16;
  if (how == "eq") return for_type<Equal>(t);
  if (how == "ne") return real ? for_type<Unequal>(t) : for_type<Opposite<Equal>>(t);
  if (how == "lt" || how == "lo") return for_type<Less>(t);
  if (how == "le" || how == "ls") return for_type<LessEqual>(t);
  if (how == "gt" || how == "hi") return for_type<Greater>(t);
  if (how == "ge" || how == "hs") return for_type<GreaterEqual>(t);
  if (!real) return nullptr;
  if (how == "equ") return for_type<Opposite<Unequal>>(t);
  if (how == "neu") return for_type<Opposite<Equal>>(t);
  if (how == "ltu") return for_type<Opposite<GreaterEqual>>(t);
  if (how == "leu") return for_type<Opposite<Greater>>(t);
  if (how == "gtu") return for_type<Opposite<LessEqual>>(t);
  if (how == "geu") return for_type<Opposite<Less>>(t);
  if (how == "num") return for_type<Numbers>(t);
  if (how == "nan") return for_type<Opposite<Numbers>>(t);
  return nullptr;
}

template <class T>
void select(Warp& w, const Instruction& i, std::uint32_t mask) {
  const T* a = w.lanes<T>(i.operands[1]);
  const T* b = w.lanes<T>(i.operands[2]);
  const std::uint32_t p = w.predicate(i.operands[3]);
  set_lanes(w.lanes<T>(i.operands[0]), mask, [=](std::uint32_t l) {
    const T yes = a[l], no = b[l];
    return (p >> l & 1U) != 0 ? yes : no;
  });
}

}  // namespace

bool decode_compare(const OpText& t, Instruction& i) {
  if (t.name == "selp") {
    const int bytes = bytes_of(t.last);
    i.op_class = OpClass::move;
    i.run = bytes == 8 ? &select<std::uint64_t> : bytes == 4 ? &select<std::uint32_t> : &select<std::uint16_t>;
    for (std::size_t n = 0; n < 3; ++n) t.add(i, n, bytes);
    t.add(i, 3, 0);
    return true;
  }
  if (t.name != "setp" || t.parts.empty()) return false;
  i.op_class = OpClass::integer;
  i.run = comparison(t.parts.front(), t.last);
  if (i.run == nullptr) return false;
  t.add_pair(i, 0, 0);
  t.add(i, 1, bytes_of(t.last));
  t.add(i, 2, bytes_of(t.last));
  i.mode = t.has("and") ? 1 : t.has("or") ? 2 : t.has("xor") ? 3 : 0;
  if (i.mode != 0) i.flags = t.add_predicate(i, 3) ? 4 : 0;
  return true;
}

}  // namespace ptxsim
