// cp.async.bulk from global to shared memory, whose bytes an mbarrier counts.
#include "interpreter/access.h"
#include "interpreter/block.h"
#include "interpreter/decoder.h"
#include "interpreter/lanes.h"

namespace ptxsim {
namespace {

/// One lane's copy as accesses of 16 bytes a lane: bounds, races and counts are theirs.
void check_source(Warp& w, const Instruction& i, std::uint64_t from, std::uint32_t bytes) {
  Access a;
  a.bytes = 16;
  for (std::uint32_t done = 0; done < bytes; done += 512) {
    const std::uint32_t lanes = std::min(32U, (bytes - done) / 16);
    a.space = Space::global;
    a.mask = lanes == 32 ? ~0U : (1U << lanes) - 1;
    for (std::uint32_t l = 0; l < 32; ++l) a.address[l] = from + done + std::uint64_t{16} * l;
    check_access(w, i, a);
  }
}

/// operands: shared address, global address, bytes, mbarrier.
void copy(Warp& w, const Instruction& i, std::uint32_t mask) {
  Block& block = w.block();
  LaunchState& launch = block.launch();
  for_lanes(mask, [&](std::uint32_t l) {
    const auto shared_address = [&](const Operand& o, std::int64_t offset) {
      return static_cast<std::uint32_t>(w.value(o, l) + static_cast<std::uint64_t>(offset));
    };
    BulkCopy c;
    c.to = shared_address(i.operands[0], i.offset);
    c.from = w.value(i.operands[1], l) + static_cast<std::uint64_t>(i.offset2);
    c.bytes = static_cast<std::uint32_t>(w.value(i.operands[2], l));
    if (c.bytes % 16 != 0 || c.to % 16 != 0 || c.from % 16 != 0) {
      launch.abort(Check::alignment, i, "a bulk copy's addresses and bytes are multiples of 16");
    }
    if (std::uint64_t{c.to} + c.bytes > block.shared().size()) {
      launch.abort(Check::bounds, i, "a bulk copy behind the shared memory of the block");
    }
    check_source(w, i, c.from, c.bytes);
    if (launch.options.check_races) {
      report_shared(w, i, block.shared().start_copy(thread_of(w, l), c.to, c.bytes), l, c.to);
    }
    const bool late = launch.options.async == AsyncMode::late;
    const Mbarriers::Problem problem = block.mbarriers().start(shared_address(i.operands[3], i.offset3), c, late, i);
    if (problem != nullptr) launch.abort(Check::mbarrier, i, problem);
  });
}

}  // namespace

bool decode_bulk(const OpText& t, Instruction& i) {
  if (t.name != "cp" || !t.has("bulk") || t.has("tensor") || t.has("prefetch")) return false;
  const bool to_shared = (t.has("shared::cluster") || t.has("shared::cta")) && t.has("global");
  if (!to_shared || !t.has("mbarrier::complete_tx::bytes") || t.has("multicast::cluster")) return false;
  i.op_class = OpClass::async;
  i.run = &copy;
  t.add_address(i, 0, i.offset);
  t.add_address(i, 1, i.offset2);
  t.add(i, 2, 4);
  t.add_address(i, 3, i.offset3);
  return true;
}

}  // namespace ptxsim
