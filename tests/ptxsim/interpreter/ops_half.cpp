// Arithmetic of f16, bf16 and pairs of them.
#include <cmath>

#include "interpreter/decoder.h"
#include "interpreter/floats.h"
#include "interpreter/lanes.h"

namespace ptxsim {
namespace {

struct Plus {
  float operator()(float a, float b) const { return a + b; }
};
struct Minus {
  float operator()(float a, float b) const { return a - b; }
};
struct Times {
  float operator()(float a, float b) const { return a * b; }
};
struct Least {  // the number where the other is NaN
  float operator()(float a, float b) const { return a < b || b != b ? a : b; }
};
struct Most {
  float operator()(float a, float b) const { return a > b || b != b ? a : b; }
};
struct Fma {
  double operator()(double a, double b, double c) const { return a * b + c; }
};
struct Exp2 {
  double operator()(double a) const { return std::exp2(a); }
};
struct Tanh {
  double operator()(double a) const { return std::tanh(a); }
};
struct Negate {
  float operator()(float a) const { return -a; }
};
struct Absolute {
  float operator()(float a) const { return std::abs(a); }
};

/// F on one value or, in 32 bits, on each half.
template <class H, class F>
struct Lift {
  template <class... A>
  std::uint16_t operator()(std::uint16_t a, A... b) const {
    return H::round(F{}(H::widen(a), H::widen(b)...));
  }
  template <class... A>
  std::uint32_t operator()(std::uint32_t a, A... b) const {
    const auto low = (*this)(static_cast<std::uint16_t>(a), static_cast<std::uint16_t>(b)...);
    const auto high = (*this)(static_cast<std::uint16_t>(a >> 16), static_cast<std::uint16_t>(b >> 16)...);
    return low | static_cast<std::uint32_t>(high) << 16;
  }
};

template <template <class, class> class Map, class F>
Execute for_halves(Type t) {
  switch (t) {
    case Type::f16:
      return &Map<std::uint16_t, Lift<F16, F>>::run;
    case Type::bf16:
      return &Map<std::uint16_t, Lift<BF16, F>>::run;
    case Type::f16x2:
      return &Map<std::uint32_t, Lift<F16, F>>::run;
    case Type::bf16x2:
      return &Map<std::uint32_t, Lift<BF16, F>>::run;
    default:
      return nullptr;
  }
}

Execute find(const OpText& t) {
  if (t.has("sat") || t.has("relu") || t.has("NaN") || t.has("xorsign")) return nullptr;
  if (t.name == "add") return for_halves<Same2, Plus>(t.last);
  if (t.name == "sub") return for_halves<Same2, Minus>(t.last);
  if (t.name == "mul") return for_halves<Same2, Times>(t.last);
  if (t.name == "min") return for_halves<Same2, Least>(t.last);
  if (t.name == "max") return for_halves<Same2, Most>(t.last);
  if (t.name == "fma") return for_halves<Same3, Fma>(t.last);
  if (t.name == "ex2") return for_halves<Same1, Exp2>(t.last);
  if (t.name == "tanh") return for_halves<Same1, Tanh>(t.last);
  if (t.name == "neg") return for_halves<Same1, Negate>(t.last);
  if (t.name == "abs") return for_halves<Same1, Absolute>(t.last);
  return nullptr;
}

}  // namespace

bool decode_half(const OpText& t, Instruction& i) {
  if (t.name == "cvt") return false;
  i.run = find(t);
  if (i.run == nullptr) return false;
  i.op_class = OpClass::half;
  t.add_all(i, 0, bytes_of(t.last));
  return true;
}

}  // namespace ptxsim
