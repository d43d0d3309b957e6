// add, sub, mul, mad, div, rem, min, max, neg, abs, dp4a of integers.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "interpreter/decoder.h"
#include "interpreter/lanes.h"

namespace ptxsim {
namespace {

// Arithmetic wraps: it is done without sign, in 32 bits at least so that no promotion overflows.
__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;
template <class T>
using Wide = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

struct Plus {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
  }
};
struct Minus {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wide<T>>(a) - static_cast<Wide<T>>(b));
  }
};
struct Times {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
  }
};
struct TimesHigh {
  template <class T>
  T operator()(T a, T b) const {
    using Full = std::conditional_t<std::is_signed_v<T>, Int128, Uint128>;
    return static_cast<T>((static_cast<Full>(a) * static_cast<Full>(b)) >> (8 * sizeof(T)));
  }
};
struct Mad {
  template <class T>
  T operator()(T a, T b, T c) const {
    return Plus{}(Times{}(a, b), c);
  }
};
struct MadHigh {
  template <class T>
  T operator()(T a, T b, T c) const {
    return Plus{}(TimesHigh{}(a, b), c);
  }
};
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Minus{}(T{0}, a);
    return static_cast<T>(a / b);
  }
};
struct Rest {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Least {
  template <class T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};
struct Most {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};
struct Negate {
  template <class T>
  T operator()(T a) const {
    return Minus{}(T{0}, a);
  }
};
struct Absolute {
  template <class T>
  T operator()(T a) const {
    return a < 0 ? Minus{}(T{0}, a) : a;
  }
};

template <class From, class To>
struct WideTimes {
  To operator()(From a, From b) const { return static_cast<To>(static_cast<To>(a) * static_cast<To>(b)); }
};
template <class From, class To>
struct WideMad {
  To operator()(From a, From b, To c) const { return Plus{}(WideTimes<From, To>{}(a, b), c); }
};

template <class From, class To>
Execute wide(bool mad) {
  if (mad) return &map3<To, From, From, To, WideMad<From, To>>;
  return &map2<To, From, From, WideTimes<From, To>>;
}

Execute wide_product(Type t, bool mad) {
  switch (t) {
    case Type::s16:
      return wide<std::int16_t, std::int32_t>(mad);
    case Type::u16:
      return wide<std::uint16_t, std::uint32_t>(mad);
    case Type::s32:
      return wide<std::int32_t, std::int64_t>(mad);
    case Type::u32:
      return wide<std::uint32_t, std::uint64_t>(mad);
    default:
      return nullptr;
  }
}

/// flags bit 2: a is signed, bit 3: b is.
void dp4a(Warp& w, const Instruction& i, std::uint32_t mask) {
  std::uint32_t* d = w.lanes<std::uint32_t>(i.operands[0]);
  const std::uint32_t* a = w.lanes<std::uint32_t>(i.operands[1]);
  const std::uint32_t* b = w.lanes<std::uint32_t>(i.operands[2]);
  const std::uint32_t* c = w.lanes<std::uint32_t>(i.operands[3]);
  for_lanes(mask, [&](std::uint32_t l) {
    std::uint32_t sum = c[l];
    for (int k = 0; k < 4; ++k) {
      const auto x = static_cast<std::uint8_t>(a[l] >> (8 * k));
      const auto y = static_cast<std::uint8_t>(b[l] >> (8 * k));
      const int p = (i.flags & 4) != 0 ? static_cast<std::int8_t>(x) : x;
      const int q = (i.flags & 8) != 0 ? static_cast<std::int8_t>(y) : y;
      sum += static_cast<std::uint32_t>(p * q);
    }
    d[l] = sum;
  });
}

Execute find(const OpText& t) {
  const Type type = t.last;
  const bool high = t.has("hi");
  if (t.name == "add") return for_integers<Same2, Plus>(type);
  if (t.name == "sub") return for_integers<Same2, Minus>(type);
  if (t.name == "mul" && t.has("wide")) return wide_product(type, false);
  if (t.name == "mad" && t.has("wide")) return wide_product(type, true);
  if (t.name == "mul") return high ? for_integers<Same2, TimesHigh>(type) : for_integers<Same2, Times>(type);
  if (t.name == "mad") return high ? for_integers<Same3, MadHigh>(type) : for_integers<Same3, Mad>(type);
  if (t.name == "div") return for_integers<Same2, Divide>(type);
  if (t.name == "rem") return for_integers<Same2, Rest>(type);
  if (t.name == "min") return for_integers<Same2, Least>(type);
  if (t.name == "max") return for_integers<Same2, Most>(type);
  if (t.name == "neg") return for_integers<Same1, Negate>(type);
  if (t.name == "abs") return for_integers<Same1, Absolute>(type);
  return nullptr;
}

}  // namespace

bool decode_integer(const OpText& t, Instruction& i) {
  if (t.name == "dp4a") {
    i.run = &dp4a;
    i.flags = static_cast<std::uint8_t>((t.first == Type::s32 ? 4 : 0) | (t.last == Type::s32 ? 8 : 0));
    t.add_all(i, 0, 4);
    i.op_class = OpClass::integer;
    return true;
  }
  if (t.has("cc") || t.has("sat")) return false;
  i.run = find(t);
  if (i.run == nullptr) return false;
  i.op_class = OpClass::integer;
  const int bytes = bytes_of(t.last);
  for (std::size_t n = 0; n < t.operands.size(); ++n) {
    const bool doubled = t.has("wide") && (n == 0 || n == 3);
    t.add(i, n, doubled ? 2 * bytes : bytes);
  }
  return true;
}

}  // namespace ptxsim
