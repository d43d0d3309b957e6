// Instructions in which the lanes of a warp take part together: shfl, vote, match, redux, bar.warp, activemask.
#include <algorithm>

#include "interpreter/block.h"
#include "interpreter/decoder.h"
#include "interpreter/lanes.h"

namespace ptxsim {
namespace {

/// The mask of a .sync instruction must name exactly the lanes that are here, ended ones aside.
void check_sync(Warp& w, const Instruction& i, std::uint32_t mask, const Operand& members) {
  const std::uint32_t* member = w.lanes<std::uint32_t>(members);
  const std::uint32_t elsewhere = w.alive() & ~mask;
  const std::uint32_t wrong =
      lanes_where([=](std::uint32_t l) { return (member[l] & 1U << l) == 0 || (member[l] & elsewhere) != 0; });
  if ((wrong & mask) == 0) return;
  for_lanes(mask, [&](std::uint32_t l) {
    const auto named = static_cast<std::uint32_t>(w.value(members, l));
    if ((named >> l & 1U) == 0) {
      w.block().launch().findings.add(Check::sync_mask, i, "lane " + std::to_string(l) + " is not in its own mask");
    } else if ((named & w.alive() & ~mask) != 0) {
      w.block().launch().findings.add(
          Check::sync_mask, i,
          "the mask names lane " + std::to_string(__builtin_ctz(named & w.alive() & ~mask)) + ", which is elsewhere");
    }
  });
}

enum Shuffle : std::int32_t { up, down, butterfly, index };

/// The lane that lane `l` wants to read, and whether it lies in its segment.
template <Shuffle Mode>
std::uint32_t wanted_lane(std::uint32_t l, std::uint32_t b, std::uint32_t c, bool& inside) {
  const std::uint32_t segment = c >> 8 & 31U;
  const std::uint32_t clamp = c & 31U;
  const std::uint32_t least = l & segment;
  const std::uint32_t most = least | (clamp & ~segment & 31U);
  b &= 31U;
  if constexpr (Mode == up) {
    inside = l >= b && l - b >= most;
    return l - b;
  }
  const std::uint32_t from = Mode == down ? l + b : Mode == butterfly ? l ^ b : least | (b & ~segment & 31U);
  inside = from <= most;
  return from;
}

/// operands: d, p, a, b, c, mask.
template <Shuffle Mode>
void shuffle(Warp& w, const Instruction& i, std::uint32_t mask) {
  check_sync(w, i, mask, i.operands[5]);
  const std::uint32_t* a = w.lanes<std::uint32_t>(i.operands[2]);
  const std::uint32_t* b = w.lanes<std::uint32_t>(i.operands[3]);
  const std::uint32_t* c = w.lanes<std::uint32_t>(i.operands[4]);
  std::uint32_t from[32];
  std::uint32_t bits[32];
  for (std::uint32_t l = 0; l < 32; ++l) {
    bool inside = false;
    const std::uint32_t wanted = wanted_lane<Mode>(l, b[l], c[l], inside);
    from[l] = inside ? wanted : l;
    bits[l] = (inside ? 1U : 0U) << l;
  }
  std::uint32_t inside = 0;
  for (const std::uint32_t bit : bits) inside |= bit;
  const std::uint32_t absent = lanes_where([&](std::uint32_t l) { return (mask >> from[l] & 1U) == 0; }) & mask;
  for_lanes(absent, [&](std::uint32_t l) {
    w.block().launch().findings.add(
        Check::sync_mask, i,
        "lane " + std::to_string(l) + " reads lane " + std::to_string(from[l]) + ", which is not there");
  });
  std::uint32_t out[32];
  for (std::uint32_t l = 0; l < 32; ++l) out[l] = a[from[l]];
  set_lanes(w.lanes<std::uint32_t>(i.operands[0]), mask, [&](std::uint32_t l) { return out[l]; });
  w.set_predicate(i.operands[1], inside, mask);
  ++w.warp_time;
}

enum Vote : std::int32_t { all, any, uniform, ballot };

/// operands: d, p, mask. flags bit 2: p is negated.
void vote(Warp& w, const Instruction& i, std::uint32_t mask) {
  check_sync(w, i, mask, i.operands[2]);
  const std::uint32_t p = ((i.flags & 4) != 0 ? ~w.predicate(i.operands[1]) : w.predicate(i.operands[1])) & mask;
  ++w.warp_time;
  if (i.mode == ballot) {
    for_lanes(mask, [&](std::uint32_t l) { w.lanes<std::uint32_t>(i.operands[0])[l] = p; });
    return;
  }
  const bool result = i.mode == all ? p == mask : i.mode == any ? p != 0 : p == 0 || p == mask;
  w.set_predicate(i.operands[0], result ? ~0U : 0U, mask);
}

/// operands: d, p, a, mask. mode 1: all.
void match(Warp& w, const Instruction& i, std::uint32_t mask) {
  check_sync(w, i, mask, i.operands[3]);
  std::uint32_t out[32];
  bool same = true;
  for_lanes(mask, [&](std::uint32_t l) {
    out[l] = 0;
    for_lanes(mask, [&](std::uint32_t k) {
      if (w.value(i.operands[2], k) == w.value(i.operands[2], l)) out[l] |= 1U << k;
    });
    same = same && out[l] == mask;
  });
  for_lanes(mask, [&](std::uint32_t l) {
    w.lanes<std::uint32_t>(i.operands[0])[l] = i.mode == 0 ? out[l] : same ? mask : 0;
  });
  w.set_predicate(i.operands[1], same ? ~0U : 0U, mask);
  ++w.warp_time;
}

/// operands: d, a, mask. mode: add, min, max, and, or, xor.
void reduce(Warp& w, const Instruction& i, std::uint32_t mask) {
  check_sync(w, i, mask, i.operands[2]);
  const std::uint32_t* a = w.lanes<std::uint32_t>(i.operands[1]);
  std::uint32_t r = a[__builtin_ctz(mask)];
  const bool with_sign = is_signed(i.type);
  for (std::uint32_t m = mask & (mask - 1); m != 0; m &= m - 1) {
    const std::uint32_t v = a[__builtin_ctz(m)];
    const bool less = with_sign ? static_cast<std::int32_t>(v) < static_cast<std::int32_t>(r) : v < r;
    if (i.mode == 0) r += v;
    if (i.mode == 1) r = less ? v : r;
    if (i.mode == 2) r = less ? r : v;
    if (i.mode == 3) r &= v;
    if (i.mode == 4) r |= v;
    if (i.mode == 5) r ^= v;
  }
  for_lanes(mask, [&](std::uint32_t l) { w.lanes<std::uint32_t>(i.operands[0])[l] = r; });
  ++w.warp_time;
}

void synchronise(Warp& w, const Instruction& i, std::uint32_t mask) {
  check_sync(w, i, mask, i.operands[0]);
  ++w.warp_time;
}

void active_mask(Warp& w, const Instruction& i, std::uint32_t mask) {
  for_lanes(mask, [&](std::uint32_t l) { w.lanes<std::uint32_t>(i.operands[0])[l] = mask; });
}

/// operands: d, p, mask.
void elect(Warp& w, const Instruction& i, std::uint32_t mask) {
  check_sync(w, i, mask, i.operands[2]);
  const auto leader = static_cast<std::uint32_t>(__builtin_ctz(mask));
  for_lanes(mask, [&](std::uint32_t l) { w.lanes<std::uint32_t>(i.operands[0])[l] = leader; });
  w.set_predicate(i.operands[1], 1U << leader, mask);
}

bool decode_vote(const OpText& t, Instruction& i) {
  if (!t.has("sync")) return false;
  i.run = &vote;
  i.mode = t.has("ballot") ? ballot : t.has("all") ? all : t.has("any") ? any : uniform;
  t.add(i, 0, i.mode == ballot ? 4 : 0);
  i.flags = t.add_predicate(i, 1) ? 4 : 0;
  t.add(i, 2, 4);
  return true;
}

}  // namespace

bool decode_collective(const OpText& t, Instruction& i) {
  i.op_class = OpClass::collective;
  if (t.name == "vote") return decode_vote(t, i);
  if (t.name == "shfl") {
    if (!t.has("sync")) return false;
    i.run = t.has("up")     ? &shuffle<up>
            : t.has("down") ? &shuffle<down>
            : t.has("bfly") ? &shuffle<butterfly>
                            : &shuffle<index>;
    t.add_pair(i, 0, 4);
    t.add_all(i, 1, 4);
    return i.count == 6;
  }
  if (t.name == "match") {
    const int bytes = bytes_of(t.last);
    i.run = &match;
    i.mode = t.has("all") ? 1 : 0;
    t.add_pair(i, 0, 4);
    t.add(i, 1, bytes);
    t.add(i, 2, 4);
    return true;
  }
  if (t.name == "redux") {
    constexpr std::string_view names[] = {"add", "min", "max", "and", "or", "xor"};
    i.mode = -1;
    for (std::size_t n = 0; n < std::size(names); ++n) i.mode = t.has(names[n]) ? static_cast<std::int32_t>(n) : i.mode;
    i.run = &reduce;
    t.add_all(i, 0, 4);
    return i.mode >= 0 && t.last != Type::f32;
  }
  if (t.name == "bar" && t.has("warp")) {
    i.run = &synchronise;
    t.add(i, 0, 4);
    return true;
  }
  if (t.name == "activemask") {
    i.run = &active_mask;
    t.add(i, 0, 4);
    return true;
  }
  if (t.name == "elect") {
    i.run = &elect;
    t.add_pair(i, 0, 4);
    t.add(i, 1, 4);
    return true;
  }
  return false;
}

}  // namespace ptxsim
