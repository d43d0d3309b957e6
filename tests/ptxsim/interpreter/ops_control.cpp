// Branches, ends and barriers: what the loop over instructions does itself.
#include "interpreter/block.h"
#include "interpreter/decoder.h"

namespace ptxsim {
namespace {

void trap(Warp& w, const Instruction& i, std::uint32_t) {
  w.block().launch().abort(Check::unsupported, i, "the kernel trapped");
}

/// Launches run one after another; whether a program relies on that is checked (check_grid_order).
void wait_for_grid(Warp& w, const Instruction&, std::uint32_t) { w.waited_for_grid = true; }
void nothing(Warp&, const Instruction&, std::uint32_t) {}

}  // namespace

bool decode_control(const OpText& t, Instruction& i) {
  i.op_class = OpClass::control;
  if (t.name == "bra") {
    i.flow = Flow::branch;
    return true;
  }
  if (t.name == "brx" && t.has("idx")) {
    i.flow = Flow::table;
    t.add(i, 0, 4);
    return true;
  }
  if (t.name == "ret" || t.name == "exit") {
    i.flow = Flow::exit;
    return true;
  }
  if (t.name == "nanosleep") {
    i.flow = Flow::yield;
    return true;
  }
  if (t.name == "trap" || t.name == "brkpt") {
    i.run = &trap;
    return true;
  }
  if (t.name == "griddepcontrol") {
    i.run = t.has("wait") ? &wait_for_grid : &nothing;
    return true;
  }
  const bool barrier = (t.name == "bar" || t.name == "barrier") && !t.has("warp");
  if (!barrier || t.has("red")) return false;
  i.flow = Flow::barrier;
  if (t.has("cluster")) {
    i.mode = t.has("arrive") ? cluster_arrive : cluster_wait;
    return !t.has("relaxed");  // which orders nothing
  }
  i.mode = t.has("arrive") ? block_arrive : block_sync;
  t.add_all(i, 0, 4);
  return true;
}

}  // namespace ptxsim
