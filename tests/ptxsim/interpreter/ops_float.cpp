// Arithmetic and functions of f32 and f64. The approximate functions give the correctly rounded result.
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

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
template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

struct Least {  // the number where the other is NaN; -0 is less than 0
  template <class T>
  T operator()(T a, T b) const {
    const T either = std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) | std::bit_cast<BitsOf<T>>(b));
    const T least = a < b || b != b ? a : b;
    return a == b ? either : least;
  }
};
struct Most {
  template <class T>
  T operator()(T a, T b) const {
    const T both = std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) & std::bit_cast<BitsOf<T>>(b));
    const T most = a > b || b != b ? a : b;
    return a == b ? both : most;
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
/// 2^a: the whole part goes into the exponent, the rest (at most a half) through the exponential series to r^13, whose
/// error is far below a float's last bit.
struct Exp2 {
  float operator()(float a) const {
    constexpr double rounder = 6755399441055744.0;  // 1.5 * 2^52: a sum with it has a whole number in its last bits
    const double clamped = static_cast<double>(a < -200.0F ? -200.0F : a > 200.0F ? 200.0F : a);
    const double shifted = clamped + rounder;
    const double r = (clamped - (shifted - rounder)) * std::numbers::ln2;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const double power = std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023U) << 52);
    return static_cast<float>(p * power);
  }
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
  static T flush(T v) { return std::abs(v) < std::numeric_limits<T>::min() ? std::copysign(T{0}, v) : v; }
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
