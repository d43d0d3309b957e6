#include "interpreter/warp.h"

#include <algorithm>
#include <cstring>

#include "interpreter/block.h"

namespace ptxsim {

Warp::Warp(Block& block, std::uint32_t index, std::uint32_t threads)
    : block_(&block),
      index_(index),
      registers_((block.kernel().register_bytes + 63) / 64),
      predicates_(block.kernel().predicates),
      local_(std::size_t{block.kernel().local_bytes} * 32, std::byte{0xff}) {
  const std::uint32_t here = std::min(32U, threads - 32 * index);
  alive_ = here == 32 ? ~0U : (1U << here) - 1U;
  std::memset(static_cast<void*>(registers_.data()), 0xff, registers_.size() * sizeof(Line));
  files_[0] = registers_.empty() ? nullptr : registers_.data()->bytes;
  files_[1] = const_cast<std::byte*>(block.kernel().constant_lanes.data());
  set_specials(threads);
}

void Warp::set_specials(std::uint32_t threads) {
  const Kernel& kernel = block_->kernel();
  const LaunchConfig& c = block_->launch().config;
  const Dim3 at = block_->position();
  const auto set = [&](const char* name, auto value) {
    const auto it = kernel.specials.find(std::string_view(name));
    std::uint32_t* l = lanes<std::uint32_t>(it->second);
    for (std::uint32_t lane = 0; lane < 32; ++lane) l[lane] = value(lane);
  };
  const auto all = [&](const char* name, std::uint32_t v) { set(name, [v](std::uint32_t) { return v; }); };
  const auto thread = [&](std::uint32_t lane) { return std::min(32 * index_ + lane, threads - 1); };
  set("%tid.x", [&](std::uint32_t l) { return thread(l) % c.block.x; });
  set("%tid.y", [&](std::uint32_t l) { return thread(l) / c.block.x % c.block.y; });
  set("%tid.z", [&](std::uint32_t l) { return thread(l) / c.block.x / c.block.y; });
  all("%ntid.x", c.block.x);
  all("%ntid.y", c.block.y);
  all("%ntid.z", c.block.z);
  all("%ctaid.x", at.x);
  all("%ctaid.y", at.y);
  all("%ctaid.z", at.z);
  all("%nctaid.x", c.grid.x);
  all("%nctaid.y", c.grid.y);
  all("%nctaid.z", c.grid.z);
  all("%warpid", index_);
  all("%smid", 0);
  all("%nsmid", 1);
  all("%clock", 0);
  all("%dynamic_smem_size", c.dynamic_shared);
  set("%laneid", [](std::uint32_t l) { return l; });
  set("%lanemask_eq", [](std::uint32_t l) { return 1U << l; });
  set("%lanemask_lt", [](std::uint32_t l) { return (1U << l) - 1U; });
  set("%lanemask_le", [](std::uint32_t l) { return ((1U << l) - 1U) | 1U << l; });
  set("%lanemask_gt", [](std::uint32_t l) { return ~(((1U << l) - 1U) | 1U << l); });
  set("%lanemask_ge", [](std::uint32_t l) { return ~((1U << l) - 1U); });
}

std::uint32_t Warp::predicate(const Operand& o) const noexcept {
  if (o.file == 1) return block_->kernel().constants[o.at / 256] != 0 ? ~0U : 0U;
  return predicates_[o.at];
}

void Warp::set_predicate(const Operand& o, std::uint32_t value, std::uint32_t mask) noexcept {
  predicates_[o.at] = (predicates_[o.at] & ~mask) | (value & mask);
}

std::uint64_t Warp::value(const Operand& o, std::uint32_t lane) noexcept {
  switch (o.bytes) {
    case 2:
      return lanes<std::uint16_t>(o)[lane];
    case 4:
      return lanes<std::uint32_t>(o)[lane];
    case 8:
      return lanes<std::uint64_t>(o)[lane];
    default: {
      std::uint64_t v = 0;
      std::memcpy(&v, files_[o.file] + o.at + std::size_t{lane} * o.bytes, o.bytes);
      return v;
    }
  }
}

void Warp::set_value(const Operand& o, std::uint32_t lane, std::uint64_t v) noexcept {
  if (o.bytes == 2) lanes<std::uint16_t>(o)[lane] = static_cast<std::uint16_t>(v);
  if (o.bytes == 4) lanes<std::uint32_t>(o)[lane] = static_cast<std::uint32_t>(v);
  if (o.bytes == 8) lanes<std::uint64_t>(o)[lane] = v;
}

std::byte* Warp::local(std::uint32_t lane) noexcept {
  return local_.data() + std::size_t{lane} * block_->kernel().local_bytes;
}

std::int32_t Warp::position() const noexcept {
  std::int32_t pc = -1;
  for (std::uint32_t l = 0; l < 32; ++l) {
    if ((alive_ >> l & 1U) != 0 && (pc < 0 || pc_[l] < pc)) pc = pc_[l];
  }
  return pc;
}

/// Gives each active lane its next place. True where the warp still runs as one.
bool Warp::diverge(const Instruction& i, std::uint32_t taken, std::int32_t pc, bool together) {
  if (i.flow == Flow::exit) {
    alive_ &= ~taken;
    taken = 0;
  }
  for (std::uint32_t l = 0; l < 32; ++l) {
    if ((active_ >> l & 1U) == 0) continue;
    pc_[l] = pc + 1;
    if ((taken >> l & 1U) == 0) continue;
    if (i.flow == Flow::branch) {
      pc_[l] = i.target;
    } else {
      const std::vector<std::int32_t>& table = block_->kernel().tables[static_cast<std::size_t>(i.target)];
      const std::uint64_t entry = value(i.operands[0], l);
      if (entry >= table.size()) block_->launch().abort(Check::bounds, i, "branch table has no such entry");
      pc_[l] = table[entry];
    }
  }
  return together && (taken == 0 || taken == active_);
}

std::uint64_t Warp::run(std::uint64_t budget) {
  LaunchState& launch = block_->launch();
  const Instruction* code = launch.kernel.code.data();
  std::uint64_t ran = 0;
  while (alive_ != 0 && ran < budget) {
    std::int32_t pc = position();
    active_ = 0;
    for (std::uint32_t l = 0; l < 32; ++l) active_ |= (alive_ >> l & 1U) != 0 && pc_[l] == pc ? 1U << l : 0U;
    const bool together = active_ == alive_;
    bool leave = false;
    while (!leave) {
      const Instruction& i = code[pc];
      std::uint32_t mask = active_;
      if (i.guard >= 0) {
        const std::uint32_t g = predicates_[static_cast<std::size_t>(i.guard)];
        mask &= i.guard_negated ? ~g : g;
      }
      const auto index = static_cast<std::size_t>(pc);
      ++launch.warp_runs[index];
      launch.lane_runs[index] += static_cast<std::uint64_t>(__builtin_popcount(mask));
      ++ran;
      ++serial;
      if (i.flow == Flow::next) {
        if (mask != 0) i.run(*this, i, mask);
        ++pc;
        if (!together || ran >= budget) leave = true;
        if (!leave) continue;
      } else if (i.flow == Flow::branch && together && (mask == active_ || mask == 0)) {
        pc = mask != 0 ? i.target : pc + 1;
        if (ran < budget) continue;
        leave = true;
      } else if (i.flow == Flow::barrier) {
        if (mask == 0) {
          ++pc;
          continue;
        }
        if (!together || mask != active_) {
          launch.abort(Check::barrier, i, "a barrier that some lanes of the warp do not reach");
        }
        const bool waits = block_->arrive(*this, i);
        for (std::uint32_t l = 0; l < 32; ++l) pc_[l] = pc + 1;
        if (waits) {
          state_ = State::barrier;
          return ran;
        }
        ++pc;
        continue;
      } else if (i.flow == Flow::yield) {
        for (std::uint32_t l = 0; l < 32; ++l) pc_[l] = (active_ >> l & 1U) != 0 ? pc + 1 : pc_[l];
        return ran;
      } else {
        diverge(i, mask, pc, together);
        break;
      }
      for (std::uint32_t l = 0; l < 32; ++l) pc_[l] = (active_ >> l & 1U) != 0 ? pc : pc_[l];
    }
  }
  if (alive_ == 0) state_ = State::done;
  return ran;
}

}  // namespace ptxsim
