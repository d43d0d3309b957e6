// ld and st in all spaces.
#include <algorithm>
#include <cstring>

#include "interpreter/access.h"
#include "interpreter/block.h"
#include "interpreter/decoder.h"
#include "interpreter/lanes.h"

namespace ptxsim {
namespace {

constexpr std::uint8_t is_store = 1;
constexpr std::uint8_t is_strong = 2;

template <class T>
T load(const std::byte* from) {
  T v;
  std::memcpy(&v, from, sizeof(T));
  return v;
}

/// Elements into a register that may be wider than T. `from(l)`: the element of lane l.
template <class T, class From>
void put(Warp& w, const Operand& o, std::uint32_t mask, From from) {
  switch (o.bytes) {
    case 2:
      for_lanes(mask, [d = w.lanes<std::uint16_t>(o), &from](std::uint32_t l) {
        d[l] = static_cast<std::uint16_t>(load<T>(from(l)));
      });
      break;
    case 4:
      for_lanes(mask, [d = w.lanes<std::uint32_t>(o), &from](std::uint32_t l) {
        d[l] = static_cast<std::uint32_t>(load<T>(from(l)));
      });
      break;
    default:
      for_lanes(mask, [d = w.lanes<std::uint64_t>(o), &from](std::uint32_t l) {
        d[l] = static_cast<std::uint64_t>(load<T>(from(l)));
      });
  }
}

/// T: the element's type; signed ones extend their sign.
template <class T>
void ld(Warp& w, const Instruction& i, std::uint32_t mask) {
  Access a;
  a.mask = mask;
  a.bytes = sizeof(T) * i.vector;
  a.space = i.space;
  a.strong = (i.flags & is_strong) != 0;
  gather_addresses(w, i, i.operands[i.vector], i.offset, a);
  check_access(w, i, a);
  std::byte* from[32];
  host_pointers(w, a, from);
  for (std::size_t n = 0; n < i.vector; ++n) {
    put<T>(w, i.operands[n], mask, [&](std::uint32_t l) { return from[l] + n * sizeof(T); });
  }
}

/// The low bytes of registers, which may be wider.
template <class T, class R>
void take(const R* from, std::uint32_t mask, std::byte* const (&to)[32], std::size_t offset) {
  for_lanes(mask, [&](std::uint32_t l) {
    const auto v = static_cast<T>(from[l]);
    std::memcpy(to[l] + offset, &v, sizeof(T));
  });
}

template <class T>
void st(Warp& w, const Instruction& i, std::uint32_t mask) {
  Access a;
  a.mask = mask;
  a.bytes = sizeof(T) * i.vector;
  a.space = i.space;
  a.kind = AccessKind::write;
  a.strong = (i.flags & is_strong) != 0;
  gather_addresses(w, i, i.operands[i.vector], i.offset, a);
  check_access(w, i, a);
  std::byte* to[32];
  host_pointers(w, a, to);
  for (std::size_t n = 0; n < i.vector; ++n) {
    const Operand& o = i.operands[n];
    const std::size_t offset = n * sizeof(T);
    if (o.bytes == 2) take<T>(w.lanes<std::uint16_t>(o), mask, to, offset);
    if (o.bytes == 4) take<T>(w.lanes<std::uint32_t>(o), mask, to, offset);
    if (o.bytes == 8) take<T>(w.lanes<std::uint64_t>(o), mask, to, offset);
  }
}

/// Parameters: one value for all lanes, unless the address is computed.
template <class T>
void ld_param(Warp& w, const Instruction& i, std::uint32_t mask) {
  LaunchState& launch = w.block().launch();
  const Operand& address = i.operands[i.vector];
  const auto place = [&](std::uint32_t l) {
    const std::uint64_t at = w.value(address, l) + static_cast<std::uint64_t>(i.offset);
    const std::uint64_t size = launch.kernel.parameter_bytes, wanted = sizeof(T) * i.vector;
    if (at > size || wanted > size - at) launch.abort(Check::bounds, i, "a read behind the parameters");
    return launch.parameters.data() + at;
  };
  const std::byte* first = place(static_cast<std::uint32_t>(__builtin_ctz(mask)));
  for (std::size_t n = 0; n < i.vector; ++n) {
    if (address.file == 1) {
      put<T>(w, i.operands[n], mask, [&](std::uint32_t) { return first + n * sizeof(T); });
    } else {
      put<T>(w, i.operands[n], mask, [&](std::uint32_t l) { return place(l) + n * sizeof(T); });
    }
  }
}

enum class Action { load, store, parameter };

template <class T>
Execute handler(Action a) {
  return a == Action::load ? &ld<T> : a == Action::store ? &st<T> : &ld_param<T>;
}

Execute handler(Type t, Action a) {
  switch (t) {
    case Type::s8:
      return handler<std::int8_t>(a);
    case Type::b8:
    case Type::u8:
      return handler<std::uint8_t>(a);
    case Type::s16:
      return handler<std::int16_t>(a);
    case Type::s32:
      return handler<std::int32_t>(a);
    default:
      break;
  }
  const int bytes = bytes_of(t);
  if (bytes == 2) return handler<std::uint16_t>(a);
  if (bytes == 4) return handler<std::uint32_t>(a);
  if (bytes == 8) return handler<std::uint64_t>(a);
  return nullptr;
}

Space space_named(const OpText& t) {
  if (t.has("global")) return Space::global;
  if (t.has("shared") || t.has("shared::cta")) return Space::shared;
  if (t.has("shared::cluster")) return Space::cluster;
  if (t.has("local")) return Space::local;
  if (t.has("param") || t.has("param::entry")) return Space::param;
  if (t.has("const")) return Space::constant;
  return Space::generic;
}

}  // namespace

bool decode_memory(const OpText& t, Instruction& i) {
  const bool store = t.name == "st";
  if (!store && t.name != "ld" && t.name != "ldu") return false;
  i.space = space_named(t);
  if (store && i.space == Space::param) return false;
  i.type = t.last;
  i.vector = t.has("v2") ? 2 : t.has("v4") ? 4 : t.has("v8") ? 8 : 1;
  if (i.vector * bytes_of(i.type) > 16) return false;
  const bool strong = t.has("volatile") || t.has("relaxed") || t.has("acquire") || t.has("release");
  i.flags = static_cast<std::uint8_t>((store ? is_store : 0) | (strong ? is_strong : 0));
  i.op_class = i.space == Space::shared || i.space == Space::cluster ? OpClass::shared
               : i.space == Space::local                             ? OpClass::local
               : i.space == Space::param                             ? OpClass::move
                                                                     : OpClass::global;
  const int bytes = std::max(2, bytes_of(i.type));
  if (store) {
    Instruction address = i;
    t.add_address(address, 0, i.offset);
    if (t.add_list(i, 1, bytes) != i.vector) return false;
    i.operands[i.count++] = address.operands[0];
  } else {
    if (t.add_list(i, 0, bytes) != i.vector) return false;
    t.add_address(i, 1, i.offset);
  }
  i.run = handler(i.type, i.space == Space::param ? Action::parameter : store ? Action::store : Action::load);
  return i.run != nullptr;
}

}  // namespace ptxsim
