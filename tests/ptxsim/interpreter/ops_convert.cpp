// cvt between all types, with rounding and saturation.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "interpreter/decoder.h"
#include "interpreter/floats.h"
#include "interpreter/lanes.h"

namespace ptxsim {
namespace {

/// How a conversion rounds; flags bit 2: saturate, bit 3: to a whole number in a float type, bit 4: pair.
enum Rounding : std::int32_t { nearest = 0, zero = 1, down = 2, up = 3 };

double round_whole(double v, std::int32_t mode) {
  switch (mode) {
    case zero:
      return std::trunc(v);
    case down:
      return std::floor(v);
    case up:
      return std::ceil(v);
    default:
      return std::nearbyint(v);
  }
}

double as_double(std::uint64_t bits, Type t) {
  if (t == Type::f16) return static_cast<double>(F16::widen(static_cast<std::uint16_t>(bits)));
  if (t == Type::bf16) return static_cast<double>(BF16::widen(static_cast<std::uint16_t>(bits)));
  if (t == Type::f32) return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  return std::bit_cast<double>(bits);
}

/// Towards zero: the neighbour below in size where the nearest one is too large.
std::uint64_t toward_zero(double v, Type t) {
  if (t == Type::f32) {
    auto f = static_cast<float>(v);
    if (std::abs(static_cast<double>(f)) > std::abs(v)) f = std::nextafter(f, 0.0F);
    return std::bit_cast<std::uint32_t>(f);
  }
  std::uint16_t h = t == Type::f16 ? F16::round(v) : BF16::round(v);
  if (std::abs(as_double(h, t)) > std::abs(v)) --h;
  return h;
}

std::uint64_t float_bits(double v, Type t, const Instruction& i) {
  if ((i.flags & 8) != 0) v = round_whole(v, i.mode);
  if ((i.flags & 4) != 0) v = std::isnan(v) ? 0.0 : std::clamp(v, 0.0, 1.0);
  if (i.mode == zero && (i.flags & 8) == 0 && t != Type::f64) return toward_zero(v, t);
  if (t == Type::f16) return F16::round(v);
  if (t == Type::bf16) return BF16::round(v);
  if (t == Type::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(v));
  return std::bit_cast<std::uint64_t>(v);
}

bool floating(Type t) { return is_float(t) || t == Type::f16 || t == Type::bf16; }

/// The value of the low bits, extended by sign or zeros.
std::int64_t extend(std::uint64_t bits, Type t) {
  const int n = 8 * bytes_of(t);
  if (n == 64) return static_cast<std::int64_t>(bits);
  bits &= (std::uint64_t{1} << n) - 1;
  const bool negative = is_signed(t) && (bits >> (n - 1) & 1) != 0;
  return static_cast<std::int64_t>(negative ? bits | ~std::uint64_t{0} << n : bits);
}

double limit(Type t, bool high) {
  const int bits = 8 * bytes_of(t);
  if (is_signed(t)) return high ? std::ldexp(1.0, bits - 1) - 1 : -std::ldexp(1.0, bits - 1);
  return high ? std::ldexp(1.0, bits) - 1 : 0.0;
}

std::uint64_t to_integer(double v, Type t, std::int32_t mode) {
  if (std::isnan(v)) return 0;
  v = round_whole(v, mode);
  if (v <= limit(t, false))
    return static_cast<std::uint64_t>(is_signed(t) ? static_cast<std::int64_t>(limit(t, false)) : 0);
  const int bits = 8 * bytes_of(t);
  if (is_signed(t)) {
    if (v >= std::ldexp(1.0, bits - 1)) return (std::uint64_t{1} << (bits - 1)) - 1;
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(v));
  }
  if (v >= std::ldexp(1.0, bits)) return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  return static_cast<std::uint64_t>(v);
}

std::uint64_t saturate(std::int64_t v, Type from, Type to) {
  const bool huge = !is_signed(from) && v < 0;  // an u64 above the signed range
  const int bits = 8 * bytes_of(to);
  const std::int64_t top = is_signed(to) || bits == 64 ? static_cast<std::int64_t>((std::uint64_t{1} << (bits - 1)) - 1)
                                                       : static_cast<std::int64_t>((std::uint64_t{1} << bits) - 1);
  const std::int64_t bottom = is_signed(to) ? -static_cast<std::int64_t>((std::uint64_t{1} << (bits - 1)) - 1) - 1 : 0;
  if (huge) return static_cast<std::uint64_t>(top);
  return static_cast<std::uint64_t>(std::clamp(v, bottom, top));
}

void convert(Warp& w, const Instruction& i, std::uint32_t mask) {
  for_lanes(mask, [&](std::uint32_t l) {
    const std::uint64_t in = w.value(i.operands[1], l);
    std::uint64_t out = 0;
    if (floating(i.from)) {
      const double v = as_double(in, i.from);
      out = floating(i.type) ? float_bits(v, i.type, i) : to_integer(v, i.type, i.mode);
    } else {
      const std::int64_t v = extend(in, i.from);
      if (!floating(i.type)) {
        out = (i.flags & 4) != 0 ? saturate(v, i.from, i.type) : static_cast<std::uint64_t>(v);
        out = static_cast<std::uint64_t>(extend(out, i.type));
      } else if (i.type == Type::f32 && i.mode == nearest) {
        const float f = is_signed(i.from) ? static_cast<float>(v) : static_cast<float>(static_cast<std::uint64_t>(v));
        out = std::bit_cast<std::uint32_t>(f);
      } else {
        out = float_bits(
            is_signed(i.from) ? static_cast<double>(v) : static_cast<double>(static_cast<std::uint64_t>(v)), i.type, i);
      }
    }
    w.set_value(i.operands[0], l, out);
  });
}

/// Two floats into one register; the first operand goes to the upper half.
template <class H>
void pair(Warp& w, const Instruction& i, std::uint32_t mask) {
  const float* a = w.lanes<float>(i.operands[1]);
  const float* b = w.lanes<float>(i.operands[2]);
  set_lanes(w.lanes<std::uint32_t>(i.operands[0]), mask,
            [=](std::uint32_t l) { return static_cast<std::uint32_t>(H::round(a[l])) << 16 | H::round(b[l]); });
}

struct FromHalf {
  float operator()(std::uint16_t a) const { return F16::widen(a); }
};
struct ToHalf {
  std::uint16_t operator()(float a) const { return F16::round(a); }
};

/// Between whole numbers, and from them to f32: the registers may be wider than the types.
template <class To, class From>
struct Cast {
  template <class R>
  To operator()(R a) const {
    return static_cast<To>(static_cast<From>(a));
  }
};

template <class To, class From>
Execute cast_from(int from_bytes, int to_bytes) {
  // A register of at least 16 bits holds what is narrower, extended by the type's sign.
  if constexpr (std::is_same_v<To, float>) {
    static_cast<void>(to_bytes);
    return from_bytes == 2   ? &map1<float, std::uint16_t, Cast<float, From>>
           : from_bytes == 4 ? &map1<float, std::uint32_t, Cast<float, From>>
                             : &map1<float, std::uint64_t, Cast<float, From>>;
  } else {
    const auto pick = [&](auto register_type) -> Execute {
      using D = decltype(register_type);
      return from_bytes == 2   ? &map1<D, std::uint16_t, Cast<To, From>>
             : from_bytes == 4 ? &map1<D, std::uint32_t, Cast<To, From>>
                               : &map1<D, std::uint64_t, Cast<To, From>>;
    };
    return to_bytes == 2 ? pick(std::uint16_t{}) : to_bytes == 4 ? pick(std::uint32_t{}) : pick(std::uint64_t{});
  }
}

template <class To>
Execute cast_to(Type from, int from_bytes, int to_bytes) {
  switch (from) {
    case Type::u8:
      return cast_from<To, std::uint8_t>(from_bytes, to_bytes);
    case Type::s8:
      return cast_from<To, std::int8_t>(from_bytes, to_bytes);
    case Type::u16:
      return cast_from<To, std::uint16_t>(from_bytes, to_bytes);
    case Type::s16:
      return cast_from<To, std::int16_t>(from_bytes, to_bytes);
    case Type::u32:
      return cast_from<To, std::uint32_t>(from_bytes, to_bytes);
    case Type::s32:
      return cast_from<To, std::int32_t>(from_bytes, to_bytes);
    case Type::u64:
      return cast_from<To, std::uint64_t>(from_bytes, to_bytes);
    case Type::s64:
      return cast_from<To, std::int64_t>(from_bytes, to_bytes);
    default:
      return nullptr;
  }
}

/// The frequent ones, without a question a lane.
Execute fast(const OpText& t, const Instruction& i) {
  if ((i.flags & 12) != 0 || i.mode != nearest) return nullptr;
  if (t.first == Type::f32 && t.last == Type::f16) return &map1<float, std::uint16_t, FromHalf>;
  if (t.first == Type::f16 && t.last == Type::f32) return &map1<std::uint16_t, float, ToHalf>;
  const int from = i.operands[1].bytes, to = i.operands[0].bytes;
  switch (t.first) {
    case Type::u8:
      return cast_to<std::uint8_t>(t.last, from, to);
    case Type::s8:
      return cast_to<std::int8_t>(t.last, from, to);
    case Type::u16:
      return cast_to<std::uint16_t>(t.last, from, to);
    case Type::s16:
      return cast_to<std::int16_t>(t.last, from, to);
    case Type::u32:
      return cast_to<std::uint32_t>(t.last, from, to);
    case Type::s32:
      return cast_to<std::int32_t>(t.last, from, to);
    case Type::u64:
      return cast_to<std::uint64_t>(t.last, from, to);
    case Type::s64:
      return cast_to<std::int64_t>(t.last, from, to);
    case Type::f32:
      return to == 4 ? cast_to<float>(t.last, from, to) : nullptr;
    default:
      return nullptr;
  }
}

std::int32_t rounding(const OpText& t) {
  if (t.has("rz") || t.has("rzi")) return zero;
  if (t.has("rm") || t.has("rmi")) return down;
  if (t.has("rp") || t.has("rpi")) return up;
  return nearest;
}

}  // namespace

bool decode_convert(const OpText& t, Instruction& i) {
  if (t.name != "cvt" || t.has("relu") || t.has("satfinite")) return false;
  i.op_class = OpClass::convert;
  i.type = t.first;
  i.from = t.last;
  i.mode = rounding(t);
  if (t.first == Type::f16x2 || t.first == Type::bf16x2) {
    if (t.last != Type::f32 || i.mode != nearest) return false;
    i.run = t.first == Type::f16x2 ? &pair<F16> : &pair<BF16>;
    t.add_all(i, 0, 4);
    return true;
  }
  const bool whole = t.has("rni") || t.has("rzi") || t.has("rmi") || t.has("rpi");
  i.flags = static_cast<std::uint8_t>((t.has("sat") ? 4 : 0) | (whole && floating(t.first) ? 8 : 0));
  if (floating(t.last) && !floating(t.first) && !whole) return false;
  t.add(i, 0, std::max(2, bytes_of(t.first)));
  t.add(i, 1, std::max(2, bytes_of(t.last)));
  const Execute quick = fast(t, i);
  i.run = quick != nullptr ? quick : &convert;
  return true;
}

}  // namespace ptxsim
