// mov (of one value, of parts into a whole and back), cvta, and instructions that do nothing here.
#include <algorithm>

#include "interpreter/block.h"
#include "interpreter/decoder.h"
#include "interpreter/lanes.h"

namespace ptxsim {
namespace {

struct Keep {
  template <class T>
  T operator()(T a) const {
    return a;
  }
};

/// operands: d, then parts from low to high. mode: bits of a part.
void pack(Warp& w, const Instruction& i, std::uint32_t mask) {
  for_lanes(mask, [&](std::uint32_t l) {
    std::uint64_t v = 0;
    for (int n = 1; n < i.count; ++n) {
      const std::uint64_t part = w.value(i.operands[static_cast<std::size_t>(n)], l);
      v |= (part & ((std::uint64_t{1} << i.mode) - 1)) << ((n - 1) * i.mode);
    }
    w.set_value(i.operands[0], l, v);
  });
}

/// operands: parts from low to high, then the whole.
void unpack(Warp& w, const Instruction& i, std::uint32_t mask) {
  const auto whole = static_cast<std::size_t>(i.count - 1);
  for_lanes(mask, [&](std::uint32_t l) {
    const std::uint64_t v = w.value(i.operands[whole], l);
    for (std::size_t n = 0; n < whole; ++n) {
      w.set_value(i.operands[n], l, v >> (static_cast<int>(n) * i.mode) & ((std::uint64_t{1} << i.mode) - 1));
    }
  });
}

/// Two parts make a whole: the usual forms of the above.
template <class Whole, class Part>
void pack_two(Warp& w, const Instruction& i, std::uint32_t mask) {
  const Part* low = w.lanes<Part>(i.operands[1]);
  const Part* high = w.lanes<Part>(i.operands[2]);
  set_lanes(w.lanes<Whole>(i.operands[0]), mask, [=](std::uint32_t l) {
    return static_cast<Whole>(low[l] | static_cast<Whole>(high[l]) << 8 * sizeof(Part));
  });
}

template <class Whole, class Part>
void unpack_two(Warp& w, const Instruction& i, std::uint32_t mask) {
  Whole whole[32];
  std::copy_n(w.lanes<Whole>(i.operands[2]), 32, whole);  // a part may be the whole's own register
  set_lanes(w.lanes<Part>(i.operands[0]), mask, [&](std::uint32_t l) { return static_cast<Part>(whole[l]); });
  set_lanes(w.lanes<Part>(i.operands[1]), mask,
            [&](std::uint32_t l) { return static_cast<Part>(whole[l] >> 8 * sizeof(Part)); });
}

/// Whether the operands are as wide as parts and whole, and no more than two.
bool two_parts(const Instruction& i, std::size_t whole, std::size_t part, int bytes) {
  return i.count == 3 && i.operands[whole].bytes == bytes && 2 * i.operands[part].bytes == bytes &&
         2 * i.operands[part + 1].bytes == bytes;
}

void move_predicate(Warp& w, const Instruction& i, std::uint32_t mask) {
  w.set_predicate(i.operands[0], w.predicate(i.operands[1]), mask);
}

/// Between a window of generic addresses and addresses of a space. flags bit 2: to the space.
void change_space(Warp& w, const Instruction& i, std::uint32_t mask) {
  const std::uint64_t window = i.space == Space::shared ? shared_window : i.space == Space::local ? local_window : 0;
  for_lanes(mask, [&](std::uint32_t l) {
    const std::uint64_t v = w.value(i.operands[1], l);
    w.set_value(i.operands[0], l, (i.flags & 4) != 0 ? v & ~window : v | window);
  });
}

/// operands: d, address of shared memory, rank. A rank that no block has is reported where the address is used.
void map_address(Warp& w, const Instruction& i, std::uint32_t mask) {
  for_lanes(mask, [&](std::uint32_t l) {
    const std::uint64_t address = w.value(i.operands[1], l),
                        rank = std::min<std::uint64_t>(w.value(i.operands[2], l), 254);
    const std::uint64_t window = address & window_mask;
    w.set_value(i.operands[0], l, window | (address & shared_offset_mask) | (rank + 1) << rank_bit);
  });
}

void nothing(Warp&, const Instruction&, std::uint32_t) {}

Execute keep(int bytes) {
  return bytes == 8   ? &map1<std::uint64_t, std::uint64_t, Keep>
         : bytes == 4 ? &map1<std::uint32_t, std::uint32_t, Keep>
         : bytes == 2 ? &map1<std::uint16_t, std::uint16_t, Keep>
                      : nullptr;
}

bool decode_mov(const OpText& t, Instruction& i) {
  const int bytes = bytes_of(t.last);
  if (t.operands.size() != 2) return false;
  if (t.last == Type::pred) {
    t.add_all(i, 0, 0);
    i.run = &move_predicate;
    return true;
  }
  if (t.operands[0].front() == '{') {
    const auto parts = static_cast<int>(std::count(t.operands[0].begin(), t.operands[0].end(), ',')) + 1;
    t.add_list(i, 0, std::max(2, bytes / parts));
    t.add(i, 1, bytes);
    i.mode = 8 * bytes / parts;
    i.run = two_parts(i, 2, 0, 4)   ? &unpack_two<std::uint32_t, std::uint16_t>
            : two_parts(i, 2, 0, 8) ? &unpack_two<std::uint64_t, std::uint32_t>
                                    : &unpack;
    return true;
  }
  if (t.operands[1].front() == '{') {
    const auto parts = static_cast<int>(std::count(t.operands[1].begin(), t.operands[1].end(), ',')) + 1;
    t.add(i, 0, bytes);
    t.add_list(i, 1, std::max(2, bytes / parts));
    i.mode = 8 * bytes / parts;
    i.run = two_parts(i, 0, 1, 4)   ? &pack_two<std::uint32_t, std::uint16_t>
            : two_parts(i, 0, 1, 8) ? &pack_two<std::uint64_t, std::uint32_t>
                                    : &pack;
    return true;
  }
  t.add_all(i, 0, bytes);
  i.run = keep(bytes);
  return i.run != nullptr;
}

}  // namespace

bool decode_move(const OpText& t, Instruction& i) {
  i.op_class = OpClass::move;
  if (t.name == "mov") return decode_mov(t, i);
  if (t.name == "cvta") {
    const bool shared = t.has("shared") || t.has("shared::cta") || t.has("shared::cluster");
    i.space = shared ? Space::shared : t.has("local") ? Space::local : Space::global;
    i.flags = t.has("to") ? 4 : 0;
    i.run = &change_space;
    t.add_all(i, 0, 8);
    return true;
  }
  if (t.name == "prefetch" || t.name == "prefetchu" || t.name == "discard" || t.name == "applypriority") {
    i.run = &nothing;
    return true;
  }
  if (t.name == "mapa") {
    const int bytes = bytes_of(t.last);
    i.run = &map_address;
    t.add(i, 0, bytes);
    t.add(i, 1, bytes);
    t.add(i, 2, 4);
    return true;
  }
  if (t.name == "createpolicy") {
    t.add(i, 0, 8);
    i.run = &nothing;
    return true;
  }
  return false;
}

}  // namespace ptxsim
