#include "interpreter/warp.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "interpreter/block.h"
#include "interpreter/lanes.h"

namespace ptxsim {
namespace {

/// Where lanes stand that have ended, or that are none.
constexpr std::int32_t nowhere = std::numeric_limits<std::int32_t>::max();

}  // namespace

Warp::Warp(Block& block, std::uint32_t index, std::uint32_t threads)
    : block_(&block),
      index_(index),
      rank_(block.rank()),
      registers_((block.kernel().register_bytes + 63) / 64),
      predicates_(block.kernel().predicates),
      local_(std::size_t{block.kernel().local_bytes} * 32, std::byte{0xff}) {
  const std::uint32_t here = std::min(32U, threads - 32 * index);
  alive_ = here == 32 ? ~0U : (1U << here) - 1U;
  for (std::uint32_t l = here; l < 32; ++l) pc_[l] = nowhere;
  std::memset(static_cast<void*>(registers_.data()), 0xff, registers_.size() * sizeof(Line));
  files_[0] = registers_.empty() ? nullptr : registers_.data()->bytes;
  files_[1] = const_cast<std::byte*>(block.kernel().constant_lanes.data());
  set_specials(threads);
}

void Warp::set_specials(std::uint32_t threads) {
  const LaunchConfig& c = block_->launch().config;
  const Dim3 at = block_->position(), cluster = c.cluster;
  const auto thread = [&](std::uint32_t lane) { return std::min(32 * index_ + lane, threads - 1); };
  const auto value = [&](Special s, std::uint32_t l) -> std::uint32_t {
    switch (s) {
      case Special::tid_x:
        return thread(l) % c.block.x;
      case Special::tid_y:
        return thread(l) / c.block.x % c.block.y;
      case Special::tid_z:
        return thread(l) / c.block.x / c.block.y;
      case Special::ntid_x:
        return c.block.x;
      case Special::ntid_y:
        return c.block.y;
      case Special::ntid_z:
        return c.block.z;
      case Special::ctaid_x:
        return at.x;
      case Special::ctaid_y:
        return at.y;
      case Special::ctaid_z:
        return at.z;
      case Special::nctaid_x:
        return c.grid.x;
      case Special::nctaid_y:
        return c.grid.y;
      case Special::nctaid_z:
        return c.grid.z;
      case Special::laneid:
        return l;
      case Special::warpid:
        return index_;
      case Special::lanemask_eq:
        return 1U << l;
      case Special::lanemask_lt:
        return (1U << l) - 1U;
      case Special::lanemask_le:
        return ((1U << l) - 1U) | 1U << l;
      case Special::lanemask_gt:
        return ~(((1U << l) - 1U) | 1U << l);
      case Special::lanemask_ge:
        return ~((1U << l) - 1U);
      case Special::nsmid:
        return 1;
      case Special::dynamic_smem_size:
        return c.dynamic_shared;
      case Special::cluster_ctaid_x:
        return at.x % cluster.x;
      case Special::cluster_ctaid_y:
        return at.y % cluster.y;
      case Special::cluster_ctaid_z:
        return at.z % cluster.z;
      case Special::cluster_nctaid_x:
        return cluster.x;
      case Special::cluster_nctaid_y:
        return cluster.y;
      case Special::cluster_nctaid_z:
        return cluster.z;
      case Special::clusterid_x:
        return at.x / cluster.x;
      case Special::clusterid_y:
        return at.y / cluster.y;
      case Special::clusterid_z:
        return at.z / cluster.z;
      case Special::nclusterid_x:
        return c.grid.x / cluster.x;
      case Special::nclusterid_y:
        return c.grid.y / cluster.y;
      case Special::nclusterid_z:
        return c.grid.z / cluster.z;
      case Special::cluster_ctarank:
        return block_->rank();
      case Special::cluster_nctarank:
        return static_cast<std::uint32_t>(cluster.count());
      case Special::smid:
      case Special::clock:
        break;
    }
    return 0;
  };
  for (const SpecialRegister& s : block_->kernel().specials) {
    std::uint32_t* l = lanes<std::uint32_t>(s.at);
    for (std::uint32_t lane = 0; lane < 32; ++lane) l[lane] = value(s.which, lane);
  }
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
  std::int32_t pc = nowhere;
  for (const std::int32_t lane : pc_) pc = std::min(pc, lane);
  return pc == nowhere ? -1 : pc;
}

void Warp::place(std::uint32_t mask, std::int32_t pc) noexcept {
  for (std::uint32_t l = 0; l < 32; ++l) pc_[l] = (mask >> l & 1U) != 0 ? pc : pc_[l];
}

/// Gives each active lane its next place.
void Warp::diverge(const Instruction& i, std::uint32_t taken, std::int32_t pc) {
  place(active_ & ~taken, pc + 1);
  if (i.flow == Flow::exit) {
    alive_ &= ~taken;
    place(taken, nowhere);
    return;
  }
  if (i.flow == Flow::branch) {
    place(taken, i.target);
    return;
  }
  const std::vector<std::int32_t>& table = block_->kernel().tables[static_cast<std::size_t>(i.target)];
  for_lanes(taken, [&](std::uint32_t l) {
    const std::uint64_t entry = value(i.operands[0], l);
    if (entry >= table.size()) block_->launch().abort(Check::bounds, i, "branch table has no such entry");
    pc_[l] = table[entry];
  });
}

std::uint64_t Warp::run(std::uint64_t budget) {
  LaunchState& launch = block_->launch();
  const Instruction* code = launch.kernel.code.data();
  std::uint64_t ran = 0;
  while (alive_ != 0 && ran < budget) {
    std::int32_t pc = position();
    active_ = lanes_where([&](std::uint32_t l) { return pc_[l] == pc; });
    // The active lanes run on until they come to where others wait for them.
    std::int32_t limit = nowhere;
    for (const std::int32_t lane : pc_) limit = std::min(limit, lane == pc ? nowhere : lane);
    bool moved = false;  // pc_ is set
    while (pc < limit && ran < budget) {
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
      } else if (i.flow == Flow::branch && (mask == active_ || mask == 0)) {
        pc = mask != 0 ? i.target : pc + 1;
      } else if (i.flow == Flow::barrier) {
        ++pc;
        if (mask == 0) continue;
        if (limit != nowhere || mask != active_) {
          launch.abort(Check::barrier, i, "a barrier that some lanes of the warp do not reach");
        }
        if (block_->arrive(*this, i)) {
          place(active_, pc);
          state_ = i.mode == cluster_wait ? State::cluster : State::barrier;
          return ran;
        }
      } else if (i.flow == Flow::yield) {
        if (i.run != nullptr && mask != 0) i.run(*this, i, mask);
        place(active_, pc + 1);
        return ran;
      } else {
        diverge(i, mask, pc);
        moved = true;
        break;
      }
    }
    if (!moved) place(active_, pc);
  }
  if (alive_ == 0) state_ = State::done;
  return ran;
}

}  // namespace ptxsim
