// cp.async: copies from global to shared memory that a later wait completes.
#include <cstring>

#include "interpreter/access.h"
#include "interpreter/block.h"
#include "interpreter/decoder.h"
#include "interpreter/lanes.h"

namespace ptxsim {
namespace {

void perform(Warp& w, PendingCopy& c) {
  std::byte* to = w.block().shared().data() + c.to;
  std::memset(to, 0, c.bytes);
  if (c.from_bytes != 0) std::memcpy(to, reinterpret_cast<const std::byte*>(c.from), c.from_bytes);
  c.done = true;
}

/// operands: shared address, global address, and where flags bit 2 is set the number of bytes that are copied, the rest
/// being zero. mode: bytes.
void copy(Warp& w, const Instruction& i, std::uint32_t mask) {
  LaunchState& launch = w.block().launch();
  Access to;
  to.mask = mask;
  to.bytes = static_cast<std::uint32_t>(i.mode);
  to.space = Space::shared;
  to.kind = AccessKind::atomic;  // races are told to shared memory as pending writes
  to.counted = false;
  gather_addresses(w, i, i.operands[0], i.offset, to);
  Access from;
  from.mask = mask;
  from.bytes = to.bytes;
  from.space = Space::global;
  gather_addresses(w, i, i.operands[1], i.offset2, from);
  std::uint32_t sizes[32];
  for_lanes(mask, [&](std::uint32_t l) {
    sizes[l] = to.bytes;
    if ((i.flags & 4) != 0) sizes[l] = static_cast<std::uint32_t>(w.value(i.operands[2], l));
    if (sizes[l] > to.bytes) launch.abort(Check::bounds, i, "more bytes to copy than the copy's size");
    if (sizes[l] == 0) from.mask &= ~(1U << l);
  });
  check_access(w, i, to);
  if (from.mask != 0) check_access(w, i, from);
  for_lanes(mask, [&](std::uint32_t l) {
    PendingCopy c;
    c.lane = l;
    c.group = w.commits()[l];
    c.to = static_cast<std::uint32_t>(to.address[l]);
    c.bytes = to.bytes;
    c.from_bytes = sizes[l];
    c.from = from.address[l];
    if (launch.options.check_races) {
      report_shared(w, i, w.block().shared().write(thread_of(w, l), c.to, c.bytes, true), l, c.to);
    }
    if (launch.options.async == AsyncMode::early) perform(w, c);
    w.copies().push_back(c);
  });
}

void commit(Warp& w, const Instruction&, std::uint32_t mask) {
  for_lanes(mask, [&](std::uint32_t l) { ++w.commits()[l]; });
}

/// mode: groups that may stay open; -1: none, those that were not committed included.
void wait(Warp& w, const Instruction& i, std::uint32_t mask) {
  std::vector<PendingCopy>& copies = w.copies();
  std::size_t kept = 0;
  for (PendingCopy& c : copies) {
    const bool mine = (mask >> c.lane & 1U) != 0;
    const bool due = i.mode < 0 || c.group + static_cast<std::uint32_t>(i.mode) < w.commits()[c.lane];
    if (!mine || !due) {
      copies[kept++] = c;
      continue;
    }
    if (!c.done) perform(w, c);
    if (w.block().launch().options.check_races) w.block().shared().complete(thread_of(w, c.lane), c.to, c.bytes);
  }
  copies.resize(kept);
}

}  // namespace

bool decode_async(const OpText& t, Instruction& i) {
  if (t.name != "cp" || t.parts.empty() || t.parts[0] != "async" || t.has("bulk") || t.has("mbarrier")) return false;
  i.op_class = OpClass::async;
  if (t.has("commit_group")) {
    i.run = &commit;
    return true;
  }
  if (t.has("wait_group") || t.has("wait_all")) {
    i.run = &wait;
    i.mode = t.has("wait_all") ? -1 : static_cast<std::int32_t>(t.number(0));
    return true;
  }
  i.run = &copy;
  t.add_address(i, 0, i.offset);
  t.add_address(i, 1, i.offset2);
  i.mode = static_cast<std::int32_t>(t.number(2));
  if (i.mode != 4 && i.mode != 8 && i.mode != 16) return false;
  const bool hint = t.has("L2::cache_hint");
  if (t.operands.size() > (hint ? 4U : 3U)) {
    i.flags = 4;
    t.add(i, 3, 4);
  }
  return true;
}

}  // namespace ptxsim
