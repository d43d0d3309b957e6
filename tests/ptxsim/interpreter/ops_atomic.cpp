// atom and red on global and shared memory; fences.
#include <algorithm>
#include <bit>
#include <cstring>

#include "interpreter/access.h"
#include "interpreter/block.h"
#include "interpreter/decoder.h"
#include "interpreter/floats.h"
#include "interpreter/lanes.h"

namespace ptxsim {
namespace {

enum class Rmw : std::int32_t { add, min, max, inc, dec, exch, cas, and_, or_, xor_ };

template <class T>
T apply(Rmw op, T old, T b, T c) {
  switch (op) {
    case Rmw::min:
      return std::min(old, b);
    case Rmw::max:
      return std::max(old, b);
    case Rmw::exch:
      return b;
    case Rmw::cas:
      return old == b ? c : old;
    default:
      return old;
  }
}

template <class T>
T apply_integer(Rmw op, T old, T b, T c) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case Rmw::add:
      return static_cast<T>(static_cast<U>(old) + static_cast<U>(b));
    case Rmw::inc:
      return static_cast<T>(static_cast<U>(old) >= static_cast<U>(b) ? 0 : old + 1);
    case Rmw::dec:
      return static_cast<T>(old == 0 || static_cast<U>(old) > static_cast<U>(b) ? b : old - 1);
    case Rmw::and_:
      return static_cast<T>(old & b);
    case Rmw::or_:
      return static_cast<T>(old | b);
    case Rmw::xor_:
      return static_cast<T>(old ^ b);
    default:
      return apply(op, old, b, c);
  }
}

template <class T>
T combine(Rmw op, T old, T b, T c) {
  if constexpr (std::is_integral_v<T>) {
    return apply_integer(op, old, b, c);
  } else {
    return op == Rmw::add ? old + b : apply(op, old, b, c);
  }
}

/// operands: d, address, b, c. flags bit 0: a store (for the counts).
template <class T>
void atomic(Warp& w, const Instruction& i, std::uint32_t mask) {
  LaunchState& launch = w.block().launch();
  Access a;
  a.mask = mask;
  a.bytes = sizeof(T);
  a.space = i.space;
  a.kind = AccessKind::atomic;
  const bool was_unfenced = w.unfenced;
  gather_addresses(w, i, i.operands[1], i.offset, a);
  if (a.space == Space::cluster) launch.abort(Check::unsupported, i, "an atomic on shared memory of a cluster");
  check_access(w, i, a);
  w.unfenced = was_unfenced;
  for_lanes(mask, [&](std::uint32_t l) {
    std::byte* at = host_pointer(w, a, l);
    T old;
    std::memcpy(&old, at, sizeof(T));
    T b;
    T c = T{};
    const std::uint64_t bits_b = w.value(i.operands[2], l);
    std::memcpy(&b, &bits_b, sizeof(T));
    if (i.count > 3) {
      const std::uint64_t bits_c = w.value(i.operands[3], l);
      std::memcpy(&c, &bits_c, sizeof(T));
    }
    const T out = combine(static_cast<Rmw>(i.mode), old, b, c);
    std::memcpy(at, &out, sizeof(T));
    std::uint64_t bits = 0;
    std::memcpy(&bits, &old, sizeof(T));
    w.set_value(i.operands[0], l, bits);
    if (a.space == Space::global) {
      launch.tracker.synchronise({w.block().number(), w.cluster_arrived}, a.address[l], !w.unfenced);
    }
  });
}

Execute handler(Type t) {
  switch (t) {
    case Type::u32:
    case Type::b32:
      return &atomic<std::uint32_t>;
    case Type::s32:
      return &atomic<std::int32_t>;
    case Type::u64:
    case Type::b64:
      return &atomic<std::uint64_t>;
    case Type::s64:
      return &atomic<std::int64_t>;
    case Type::f32:
      return &atomic<float>;
    case Type::f64:
      return &atomic<double>;
    default:
      return nullptr;
  }
}

void fence(Warp& w, const Instruction&, std::uint32_t) { w.unfenced = false; }

bool operation(const OpText& t, std::int32_t& mode) {
  constexpr std::string_view names[] = {"add", "min", "max", "inc", "dec", "exch", "cas", "and", "or", "xor"};
  for (std::size_t n = 0; n < std::size(names); ++n) {
    if (t.has(names[n])) {
      mode = static_cast<std::int32_t>(n);
      return true;
    }
  }
  return false;
}

}  // namespace

bool decode_atomic(const OpText& t, Instruction& i) {
  if (t.name == "membar" || t.name == "fence") {
    i.op_class = OpClass::control;
    i.run = &fence;
    return !t.has("proxy");
  }
  const bool returns = t.name == "atom";
  if ((!returns && t.name != "red") || t.has("noftz") || t.has("v2") || t.has("v4")) return false;
  if (t.has("shared::cluster")) return false;
  i.op_class = OpClass::atomic;
  i.space = t.has("global") ? Space::global : t.has("shared") ? Space::shared : Space::generic;
  i.type = t.last;
  const int bytes = bytes_of(i.type);
  if (!operation(t, i.mode)) return false;
  i.run = handler(i.type);
  if (returns) {
    t.add(i, 0, bytes);
  } else {
    i.operands[i.count++] = t.symbols.scratch(bytes);
  }
  const std::size_t first = returns ? 1 : 0;
  t.add_address(i, first, i.offset);
  t.add_all(i, first + 1, bytes);
  return i.run != nullptr;
}

}  // namespace ptxsim
