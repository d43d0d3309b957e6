// Arithmetic and functions of f32 and f64. The approximate functions give the correctly rounded result.
#include <cfenv>
#include <cmath>
#include <numbers>

#include "interpreter/decoder.h"
#include "interpreter/lanes.h"

namespace ptxsim {
namespace {

struct Plus {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Minus {
  template <class T>
  T operator()(T a, T b) const {
    return a - b;
  }
};
struct Times {
  template <class T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
struct Fma {
  template <class T>
  T operator()(T a, T b, T c) const {
    return std::fma(a, b, c);
  }
};
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    return a / b;
  }
};
struct Least {  // the number where the other is NaN
  template <class T>
  T operator()(T a, T b) const {
    return std::fmin(a, b);
  }
};
struct Most {
  template <class T>
  T operator()(T a, T b) const {
    return std::fmax(a, b);
  }
};
struct Negate {
  template <class T>
  T operator()(T a) const {
    return -a;
  }
};
struct Absolute {
  template <class T>
  T operator()(T a) const {
    return std::abs(a);
  }
};
struct CopySign {  // the sign of a with the size of b
  template <class T>
  T operator()(T a, T b) const {
    return std::copysign(b, a);
  }
};
struct Root {
  template <class T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};
struct Reciprocal {
  template <class T>
  T operator()(T a) const {
    return T{1} / a;
  }
};

// Functions by way of double.
struct InverseRoot {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(1.0 / std::sqrt(static_cast<double>(a)));
  }
};
struct Exp2 {
  float operator()(float a) const { return static_cast<float>(std::exp2(static_cast<double>(a))); }
};
struct Log2 {
  float operator()(float a) const { return static_cast<float>(std::log2(static_cast<double>(a))); }
};
struct Sine {
  float operator()(float a) const { return static_cast<float>(std::sin(static_cast<double>(a))); }
};
struct Cosine {
  float operator()(float a) const { return static_cast<float>(std::cos(static_cast<double>(a))); }
};
struct Tanh {
  float operator()(float a) const { return static_cast<float>(std::tanh(static_cast<double>(a))); }
};

/// Subnormals become zero on the way in and out.
template <class T, class F>
struct Flushed1 {
  static T flush(T v) { return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(T{0}, v) : v; }
  struct Do {
    T operator()(T a) const { return flush(F{}(flush(a))); }
  };
  static void run(Warp& w, const Instruction& i, std::uint32_t mask) { map1<T, T, Do>(w, i, mask); }
};
template <class T, class F>
struct Flushed2 {
  struct Do {
    T operator()(T a, T b) const {
      return Flushed1<T, F>::flush(F{}(Flushed1<T, F>::flush(a), Flushed1<T, F>::flush(b)));
    }
  };
  static void run(Warp& w, const Instruction& i, std::uint32_t mask) { map2<T, T, T, Do>(w, i, mask); }
};
template <class T, class F>
struct Flushed3 {
  struct Do {
    T operator()(T a, T b, T c) const {
      using X = Flushed1<T, F>;
      return X::flush(F{}(X::flush(a), X::flush(b), X::flush(c)));
    }
  };
  static void run(Warp& w, const Instruction& i, std::uint32_t mask) { map3<T, T, T, T, Do>(w, i, mask); }
};

template <class F>
Execute one(const OpText& t) {
  return t.has("ftz") ? for_floats<Flushed1, F>(t.last) : for_floats<Same1, F>(t.last);
}
template <class F>
Execute two(const OpText& t) {
  return t.has("ftz") ? for_floats<Flushed2, F>(t.last) : for_floats<Same2, F>(t.last);
}
template <class F>
Execute three(const OpText& t) {
  return t.has("ftz") ? for_floats<Flushed3, F>(t.last) : for_floats<Same3, F>(t.last);
}
/// f32 only.
template <class F>
Execute single(const OpText& t) {
  if (t.last != Type::f32) return nullptr;
  return t.has("ftz") ? &Flushed1<float, F>::run : &Same1<float, F>::run;
}

Execute find_function(const OpText& t) {
  if (t.name == "sqrt") return one<Root>(t);
  if (t.name == "rcp") return one<Reciprocal>(t);
  if (t.name == "rsqrt") return one<InverseRoot>(t);
  if (t.name == "ex2") return single<Exp2>(t);
  if (t.name == "lg2") return single<Log2>(t);
  if (t.name == "sin") return single<Sine>(t);
  if (t.name == "cos") return single<Cosine>(t);
  if (t.name == "tanh") return single<Tanh>(t);
  return nullptr;
}

Execute find(const OpText& t, std::int32_t& flops) {
  flops = 1;
  if (t.name == "add") return two<Plus>(t);
  if (t.name == "sub") return two<Minus>(t);
  if (t.name == "mul") return two<Times>(t);
  if (t.name == "div") return two<Divide>(t);
  if (t.name == "fma" || t.name == "mad") {
    flops = 2;
    return three<Fma>(t);
  }
  if (const Execute f = find_function(t)) return f;
  flops = 0;
  if (t.name == "min" && !t.has("NaN")) return two<Least>(t);
  if (t.name == "max" && !t.has("NaN")) return two<Most>(t);
  if (t.name == "neg") return one<Negate>(t);
  if (t.name == "abs") return one<Absolute>(t);
  if (t.name == "copysign") return two<CopySign>(t);
  return nullptr;
}

/// Sums, products and fma of f32 that round otherwise than to nearest, or are cut to 0 .. 1. flags: 4 add, 8 mul, 16
/// sub; bits 5 and 6: rounding; bit 7: cut.
void rounded(Warp& w, const Instruction& i, std::uint32_t mask) {
  constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  float* d = w.lanes<float>(i.operands[0]);
  const float* a = w.lanes<float>(i.operands[1]);
  const float* b = w.lanes<float>(i.operands[2]);
  const float* c = i.count > 3 ? w.lanes<float>(i.operands[3]) : b;
  std::fesetround(modes[i.flags >> 5 & 3]);
  for_lanes(mask, [&](std::uint32_t l) {
    float r = 0;
    if ((i.flags & 4) != 0) {
      r = std::fma(a[l], 1.0F, b[l]);
    } else if ((i.flags & 8) != 0) {
      r = std::fma(a[l], b[l], -0.0F);
    } else if ((i.flags & 16) != 0) {
      r = std::fma(b[l], -1.0F, a[l]);
    } else {
      r = std::fma(a[l], b[l], c[l]);
    }
    if ((i.flags & 128) != 0) r = r > 0 ? std::fmin(r, 1.0F) : 0.0F;
    d[l] = r;
  });
  std::fesetround(FE_TONEAREST);
}

bool decode_rounded(const OpText& t, Instruction& i) {
  const bool sum = t.name == "add", product = t.name == "mul", difference = t.name == "sub";
  if (t.last != Type::f32 || (!sum && !product && !difference && t.name != "fma")) return false;
  const int mode = t.has("rz") ? 1 : t.has("rm") ? 2 : t.has("rp") ? 3 : 0;
  i.flags = static_cast<std::uint8_t>((sum ? 4 : 0) | (product ? 8 : 0) | (difference ? 16 : 0) | mode << 5 |
                                      (t.has("sat") ? 128 : 0));
  i.mode = t.name == "fma" ? 2 : 1;
  i.op_class = OpClass::floating;
  i.run = &rounded;
  t.add_all(i, 0, 4);
  return true;
}

}  // namespace

bool decode_float(const OpText& t, Instruction& i) {
  if (!is_float(t.last)) return false;
  if (t.has("rz") || t.has("rm") || t.has("rp") || t.has("sat")) return decode_rounded(t, i);
  i.run = find(t, i.mode);
  if (i.run == nullptr) return false;
  i.op_class = OpClass::floating;
  t.add_all(i, 0, bytes_of(t.last));
  return true;
}

}  // namespace ptxsim
