// mbarrier: objects in shared memory that threads arrive at and wait for.
#include "interpreter/access.h"
#include "interpreter/block.h"
#include "interpreter/decoder.h"
#include "interpreter/lanes.h"

namespace ptxsim {
namespace {

/// Waits of each warp that may fail while nothing else happens to the block's objects; then it is a deadlock.
constexpr std::uint64_t most_failed_waits = 20'000;

/// The object as memory: making it writes its 8 bytes, all else reads them, so that its use is ordered behind.
Access object_access(Warp& w, const Instruction& i, const Operand& address, std::int64_t offset, std::uint32_t mask,
                     AccessKind kind) {
  Access a;
  a.mask = mask;
  a.bytes = 8;
  a.space = i.space;
  a.kind = kind;
  a.counted = false;
  gather_addresses(w, i, address, offset, a);
  if (a.space != Space::shared) w.block().launch().abort(Check::mbarrier, i, "an mbarrier outside of shared memory");
  check_access(w, i, a);
  return a;
}

void expect_no(Warp& w, const Instruction& i, Mbarriers::Problem problem) {
  if (problem != nullptr) w.block().launch().abort(Check::mbarrier, i, problem);
}

void init(Warp& w, const Instruction& i, std::uint32_t mask) {
  const Access a = object_access(w, i, i.operands[0], i.offset, mask, AccessKind::write);
  for_lanes(mask, [&](std::uint32_t l) {
    const auto count = static_cast<std::uint32_t>(w.value(i.operands[1], l));
    expect_no(w, i, w.block().mbarriers().init(static_cast<std::uint32_t>(a.address[l]), count));
  });
}

void invalidate(Warp& w, const Instruction& i, std::uint32_t mask) {
  const Access a = object_access(w, i, i.operands[0], i.offset, mask, AccessKind::write);
  for_lanes(mask, [&](std::uint32_t l) {
    expect_no(w, i, w.block().mbarriers().invalidate(static_cast<std::uint32_t>(a.address[l])));
  });
}

constexpr std::uint8_t has_state = 1, has_number = 2, expects = 4, arrives = 8;

/// arrive, arrive.expect_tx and expect_tx. operands: the state if flags say so, the address, the number if so.
void arrive(Warp& w, const Instruction& i, std::uint32_t mask) {
  const std::size_t at = (i.flags & has_state) != 0 ? 1 : 0;
  const Access a = object_access(w, i, i.operands[at], i.offset, mask, AccessKind::read);
  Mbarriers& all = w.block().mbarriers();
  for_lanes(mask, [&](std::uint32_t l) {
    const auto address = static_cast<std::uint32_t>(a.address[l]);
    const std::uint32_t number =
        (i.flags & has_number) != 0 ? static_cast<std::uint32_t>(w.value(i.operands[at + 1], l)) : 1;
    if ((i.flags & expects) != 0) expect_no(w, i, all.expect(address, number, i));
    if ((i.flags & arrives) == 0) return;
    std::uint64_t state = 0;
    expect_no(w, i, all.arrive(address, w.index(), (i.flags & expects) != 0 ? 1 : number, state));
    if ((i.flags & has_state) != 0) w.set_value(i.operands[0], l, state);
  });
}

/// operands: predicate, address, state or parity (mode). Lanes that ask the same get one answer, of one test.
void wait(Warp& w, const Instruction& i, std::uint32_t mask) {
  const Access a = object_access(w, i, i.operands[1], i.offset, mask, AccessKind::read);
  Block& block = w.block();
  std::uint32_t succeeded = 0;
  for (std::uint32_t left = mask; left != 0;) {
    const auto first = static_cast<std::uint32_t>(__builtin_ctz(left));
    const std::uint64_t value = w.value(i.operands[2], first);
    std::uint32_t same = 0;
    for_lanes(left, [&](std::uint32_t l) {
      if (a.address[l] == a.address[first] && w.value(i.operands[2], l) == value) same |= 1U << l;
    });
    bool done = false;
    expect_no(w, i,
              block.mbarriers().test(static_cast<std::uint32_t>(a.address[first]), w.index(),
                                     static_cast<Mbarriers::Phase>(i.mode), value, done));
    if (done) succeeded |= same;
    left &= ~same;
  }
  w.set_predicate(i.operands[0], succeeded, mask);
  if (succeeded != 0) ++w.warp_time;
  if (block.mbarriers().failed_waits() > most_failed_waits * block.warp_count()) {
    block.launch().abort(Check::deadlock, i, "an mbarrier's phase does not end: " + block.positions());
  }
}

bool decode_arrive(const OpText& t, Instruction& i) {
  if (t.has("noComplete") || t.has("shared::cluster")) return false;
  i.run = &arrive;
  const bool arriving = t.has("arrive");
  i.flags = static_cast<std::uint8_t>((arriving ? arrives : 0) | (t.has("expect_tx") ? expects : 0));
  const std::size_t address = arriving ? 1 : 0;
  if (arriving && t.operands[0] != "_") {
    i.flags |= has_state;
    t.add(i, 0, 8);
  }
  t.add_address(i, address, i.offset);
  if (t.operands.size() > address + 1) {
    i.flags |= has_number;
    t.add(i, address + 1, 4);
  }
  return t.operands.size() > address;
}

}  // namespace

bool decode_mbarrier(const OpText& t, Instruction& i) {
  if (t.name == "cp" && t.has("mbarrier") && t.has("arrive")) return false;
  if (t.name != "mbarrier" || t.parts.empty()) return false;
  i.op_class = OpClass::async;
  i.space = t.has("shared") || t.has("shared::cta") ? Space::shared : Space::generic;
  if (t.has("init") || t.has("inval")) {
    t.add_address(i, 0, i.offset);
    i.run = t.has("init") ? &init : &invalidate;
    if (t.has("init")) t.add(i, 1, 4);
    return true;
  }
  if (t.has("test_wait") || t.has("try_wait")) {
    i.flow = Flow::yield;  // others may be what it waits for
    i.run = &wait;
    const bool parity = t.has("parity");
    i.mode = static_cast<std::int32_t>(parity ? Mbarriers::Phase::of_parity : Mbarriers::Phase::of_state);
    t.add_predicate(i, 0);
    t.add_address(i, 1, i.offset);
    t.add(i, 2, parity ? 4 : 8);
    return true;
  }
  if (t.has("arrive") || t.has("expect_tx")) return decode_arrive(t, i);
  return false;
}

}  // namespace ptxsim
