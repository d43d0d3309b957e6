// Logic, shifts and bit fields.
#include <algorithm>
#include <type_traits>

#include "interpreter/decoder.h"
#include "interpreter/lanes.h"

namespace ptxsim {
namespace {

struct And {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};

/// The amount is 32 bits wide whatever the type; too large ones shift everything out.
template <class T, class F>
struct Shift {
  static void run(Warp& w, const Instruction& i, std::uint32_t mask) { map2<T, T, std::uint32_t, F>(w, i, mask); }
};
struct Left {
  template <class T>
  T operator()(T a, std::uint32_t n) const {
    using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    const auto shifted = static_cast<T>(static_cast<Bits>(a) << (n & (8 * sizeof(Bits) - 1)));
    return n >= 8 * sizeof(T) ? T{0} : shifted;
  }
};
struct Right {
  template <class T>
  T operator()(T a, std::uint32_t n) const {
    const std::uint32_t most = 8 * sizeof(T) - 1;
    const auto shifted = static_cast<T>(a >> (n & most));
    const auto sign = static_cast<T>(a < 0 ? -1 : 0);
    return n > most ? sign : shifted;
  }
};

struct CountOnes {
  template <class T>
  std::uint32_t operator()(T a) const {
    return static_cast<std::uint32_t>(__builtin_popcountll(a));
  }
};
struct LeadingZeros {
  std::uint32_t operator()(std::uint32_t a) const {
    return a == 0 ? 32U : static_cast<std::uint32_t>(__builtin_clz(a));
  }
  std::uint32_t operator()(std::uint64_t a) const {
    return a == 0 ? 64U : static_cast<std::uint32_t>(__builtin_clzll(a));
  }
};
struct TopBit {
  std::uint32_t operator()(std::uint32_t a) const { return a == 0 ? ~0U : 31U - LeadingZeros{}(a); }
  std::uint32_t operator()(std::int32_t a) const { return TopBit{}(static_cast<std::uint32_t>(a < 0 ? ~a : a)); }
  std::uint32_t operator()(std::uint64_t a) const { return a == 0 ? ~0U : 63U - LeadingZeros{}(a); }
};
/// Places that the top bit has to move up: what TopBit counts from the other end.
struct TopBitShift {
  std::uint32_t operator()(std::uint32_t a) const { return a == 0 ? ~0U : LeadingZeros{}(a); }
  std::uint32_t operator()(std::int32_t a) const { return (*this)(static_cast<std::uint32_t>(a < 0 ? ~a : a)); }
  std::uint32_t operator()(std::uint64_t a) const { return a == 0 ? ~0U : LeadingZeros{}(a); }
};
struct Reverse {
  template <class T>
  T operator()(T a) const {
    T r = 0;
    for (unsigned b = 0; b < 8 * sizeof(T); ++b) r = static_cast<T>(r << 1 | (a >> b & 1));
    return r;
  }
};

/// The bits [position, position + length), behind the type's end zeros or, with a sign, copies of the last bit that is
/// taken.
template <class T>
struct Extract {
  T operator()(T a, std::uint32_t position, std::uint32_t length) const {
    constexpr std::uint32_t bits = 8 * sizeof(T);
    constexpr bool with_sign = static_cast<T>(-1) < T{0};
    const std::uint32_t p = position & 0xff, n = length & 0xff;
    if (n == 0) return 0;
    const std::uint32_t taken = p >= bits ? 0 : std::min(n, bits - p);
    const std::uint32_t top = std::min(p + n, bits) - 1;  // where the sign is taken from
    const auto all = static_cast<std::uint64_t>(a);
    const std::uint64_t sign = with_sign && (all >> top & 1) != 0 ? ~std::uint64_t{0} : 0;
    const std::uint64_t keep = taken == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << taken) - 1;
    const std::uint64_t field = taken == 0 ? 0 : all >> p & keep;
    return static_cast<T>(field | (sign & ~keep));
  }
};

template <class T>
void insert(Warp& w, const Instruction& i, std::uint32_t mask) {
  const T* a = w.lanes<T>(i.operands[1]);
  const T* b = w.lanes<T>(i.operands[2]);
  const std::uint32_t* c = w.lanes<std::uint32_t>(i.operands[3]);
  const std::uint32_t* e = w.lanes<std::uint32_t>(i.operands[4]);
  set_lanes(w.lanes<T>(i.operands[0]), mask, [=](std::uint32_t l) {
    constexpr std::uint32_t bits = 8 * sizeof(T);
    const std::uint32_t at = c[l] & 0xff, n = e[l] & 0xff;
    if (at >= bits || n == 0) return b[l];
    const T field = static_cast<T>((n >= bits ? T(-1) : static_cast<T>((T{1} << n) - 1)) << at);
    return static_cast<T>((b[l] & ~field) | (static_cast<T>(a[l] << at) & field));
  });
}

/// The truth table of three bits, one line at a time.
void lop3(Warp& w, const Instruction& i, std::uint32_t mask) {
  const std::uint32_t* a = w.lanes<std::uint32_t>(i.operands[1]);
  const std::uint32_t* b = w.lanes<std::uint32_t>(i.operands[2]);
  const std::uint32_t* c = w.lanes<std::uint32_t>(i.operands[3]);
  std::uint32_t line[8];
  for (int k = 0; k < 8; ++k) line[k] = (i.mode >> k & 1) != 0 ? ~0U : 0U;
  set_lanes(w.lanes<std::uint32_t>(i.operands[0]), mask, [&](std::uint32_t l) {
    const std::uint32_t x = a[l], y = b[l], z = c[l];
    return (line[0] & ~x & ~y & ~z) | (line[1] & ~x & ~y & z) | (line[2] & ~x & y & ~z) | (line[3] & ~x & y & z) |
           (line[4] & x & ~y & ~z) | (line[5] & x & ~y & z) | (line[6] & x & y & ~z) | (line[7] & x & y & z);
  });
}

struct Permute {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::uint32_t selector) const {
    const std::uint64_t all = a | static_cast<std::uint64_t>(b) << 32;
    std::uint32_t r = 0;
    for (std::uint32_t k = 0; k < 4; ++k) {
      const std::uint32_t s = selector >> (4 * k) & 0xf;
      const std::uint32_t byte = static_cast<std::uint32_t>(all >> (8 * (s & 7))) & 0xff;
      const std::uint32_t sign = (0U - (byte >> 7)) & 0xff;  // the sign, eight times
      r |= ((s & 8) != 0 ? sign : byte) << (8 * k);
    }
    return r;
  }
};

/// flags bit 2: right; bit 3: amounts above 32 clamp, else they wrap.
void funnel(Warp& w, const Instruction& i, std::uint32_t mask) {
  const std::uint32_t* a = w.lanes<std::uint32_t>(i.operands[1]);
  const std::uint32_t* b = w.lanes<std::uint32_t>(i.operands[2]);
  const std::uint32_t* c = w.lanes<std::uint32_t>(i.operands[3]);
  const bool right = (i.flags & 4) != 0, clamps = (i.flags & 8) != 0;
  set_lanes(w.lanes<std::uint32_t>(i.operands[0]), mask, [=](std::uint32_t l) {
    const std::uint64_t both = static_cast<std::uint64_t>(b[l]) << 32 | a[l];
    const std::uint32_t n = clamps ? std::min(c[l], 32U) : c[l] & 31U;
    return right ? static_cast<std::uint32_t>(both >> n) : static_cast<std::uint32_t>(both << n >> 32);
  });
}

void logic_of_predicates(Warp& w, const Instruction& i, std::uint32_t mask) {
  const std::uint32_t a = w.predicate(i.operands[1]);
  const std::uint32_t b = i.count > 2 ? w.predicate(i.operands[2]) : 0;
  const std::uint32_t r = i.mode == 0 ? a & b : i.mode == 1 ? a | b : i.mode == 2 ? a ^ b : ~a;
  w.set_predicate(i.operands[0], r, mask);
}

bool decode_logic(const OpText& t, Instruction& i) {
  const int mode = t.name == "and" ? 0 : t.name == "or" ? 1 : t.name == "xor" ? 2 : t.name == "not" ? 3 : -1;
  if (mode < 0) return false;
  if (t.last == Type::pred) {
    i.run = &logic_of_predicates;
    i.mode = mode;
    t.add_all(i, 0, 0);
    return true;
  }
  if (mode == 0) i.run = for_integers<Same2, And>(t.last);
  if (mode == 1) i.run = for_integers<Same2, Or>(t.last);
  if (mode == 2) i.run = for_integers<Same2, Xor>(t.last);
  if (mode == 3) i.run = for_integers<Same1, Not>(t.last);
  t.add_all(i, 0, bytes_of(t.last));
  return i.run != nullptr;
}

template <class F, class T>
Execute count_of() {
  return &map1<std::uint32_t, T, F>;
}

bool decode_field(const OpText& t, Instruction& i) {
  const bool wide = bytes_of(t.last) == 8;
  const int bytes = bytes_of(t.last);
  if (t.name == "bfe") {
    i.run = t.last == Type::s32 ? &map3<std::int32_t, std::int32_t, std::uint32_t, std::uint32_t, Extract<std::int32_t>>
            : t.last == Type::u32
                ? &map3<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, Extract<std::uint32_t>>
            : t.last == Type::s64
                ? &map3<std::int64_t, std::int64_t, std::uint32_t, std::uint32_t, Extract<std::int64_t>>
                : &map3<std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t, Extract<std::uint64_t>>;
    t.add(i, 0, bytes);
    t.add(i, 1, bytes);
    t.add_all(i, 2, 4);
    return true;
  }
  if (t.name == "bfi") {
    i.run = wide ? &insert<std::uint64_t> : &insert<std::uint32_t>;
    for (std::size_t n = 0; n < 3; ++n) t.add(i, n, bytes);
    t.add_all(i, 3, 4);
    return true;
  }
  if (t.name == "popc") i.run = wide ? count_of<CountOnes, std::uint64_t>() : count_of<CountOnes, std::uint32_t>();
  if (t.name == "clz") i.run = wide ? count_of<LeadingZeros, std::uint64_t>() : count_of<LeadingZeros, std::uint32_t>();
  if (t.name == "bfind") {
    const bool shift = t.has("shiftamt");
    i.run = wide && shift                  ? count_of<TopBitShift, std::uint64_t>()
            : shift && t.last == Type::s32 ? count_of<TopBitShift, std::int32_t>()
            : shift                        ? count_of<TopBitShift, std::uint32_t>()
            : wide                         ? count_of<TopBit, std::uint64_t>()
            : t.last == Type::s32          ? count_of<TopBit, std::int32_t>()
                                           : count_of<TopBit, std::uint32_t>();
  }
  if (t.name == "brev") i.run = for_integers<Same1, Reverse>(wide ? Type::u64 : Type::u32);
  if (i.run == nullptr) return false;
  t.add(i, 0, t.name == "brev" ? bytes : 4);
  t.add(i, 1, bytes);
  return true;
}

}  // namespace

bool decode_bits(const OpText& t, Instruction& i) {
  i.op_class = OpClass::integer;
  if (decode_logic(t, i)) return true;
  if (t.name == "shl" || t.name == "shr") {
    i.run = t.name == "shl" ? for_integers<Shift, Left>(t.last) : for_integers<Shift, Right>(t.last);
    t.add(i, 0, bytes_of(t.last));
    t.add(i, 1, bytes_of(t.last));
    t.add(i, 2, 4);
    return i.run != nullptr;
  }
  if (t.name == "lop3") {
    if (t.operands.size() != 5) return false;  // with a predicate
    i.run = &lop3;
    i.mode = static_cast<std::int32_t>(t.number(4));
    for (std::size_t n = 0; n < 4; ++n) t.add(i, n, 4);
    return true;
  }
  if (t.name == "prmt") {
    if (t.parts.size() != 1) return false;  // other modes
    i.run = &map3<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, Permute>;
    t.add_all(i, 0, 4);
    return true;
  }
  if (t.name == "shf") {
    i.run = &funnel;
    i.flags = static_cast<std::uint8_t>((t.has("r") ? 4 : 0) | (t.has("clamp") ? 8 : 0));
    t.add_all(i, 0, 4);
    return true;
  }
  return decode_field(t, i);
}

}  // namespace ptxsim
