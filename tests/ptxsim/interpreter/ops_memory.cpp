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

/// An element into a register that may be wider.
template <class T>
void put(Warp& w, const Operand& o, std::uint32_t lane, const std::byte* from) {
  const T v = load<T>(from);
  switch (o.bytes) {
    case 2:
      w.lanes<std::uint16_t>(o)[lane] = static_cast<std::uint16_t>(v);
      break;
    case 4:
      w.lanes<std::uint32_t>(o)[lane] = static_cast<std::uint32_t>(v);
      break;
    default:
      w.lanes<std::uint64_t>(o)[lane] = static_cast<std::uint64_t>(v);
  }
}

template <class T>
void load_elements(Warp& w, const Instruction& i, std::uint32_t lane, const std::byte* from) {
  for (std::size_t n = 0; n < i.vector; ++n) put<T>(w, i.operands[n], lane, from + n * sizeof(T));
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
  for_lanes(mask, [&](std::uint32_t l) { load_elements<T>(w, i, l, host_pointer(w, a, l)); });
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
  for_lanes(mask, [&](std::uint32_t l) {
    std::byte* to = host_pointer(w, a, l);
    for (std::size_t n = 0; n < i.vector; ++n) {
      const std::uint64_t v = w.value(i.operands[n], l);
      std::memcpy(to + n * sizeof(T), &v, sizeof(T));
    }
  });
}

/// Parameters: one value for all lanes, unless the address is computed.
template <class T>
void ld_param(Warp& w, const Instruction& i, std::uint32_t mask) {
  LaunchState& launch = w.block().launch();
  for_lanes(mask, [&](std::uint32_t l) {
    const std::uint64_t at = w.value(i.operands[i.vector], l) + static_cast<std::uint64_t>(i.offset);
    if (at + sizeof(T) * i.vector > launch.kernel.parameter_bytes) {
      launch.abort(Check::bounds, i, "a read behind the parameters");
    }
    load_elements<T>(w, i, l, launch.parameters.data() + at);
  });
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
  i.op_class = i.space == Space::shared  ? OpClass::shared
               : i.space == Space::local ? OpClass::local
               : i.space == Space::param ? OpClass::move
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
