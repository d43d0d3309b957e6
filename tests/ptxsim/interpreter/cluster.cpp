#include "interpreter/cluster.h"

#include <algorithm>
#include <numeric>

namespace ptxsim {
namespace {

Dim3 position_of(std::uint64_t number, const Dim3& grid) {
  return {static_cast<std::uint32_t>(number % grid.x), static_cast<std::uint32_t>(number / grid.x % grid.y),
          static_cast<std::uint32_t>(number / grid.x / grid.y)};
}

}  // namespace

Cluster::Cluster(LaunchState& launch, std::uint32_t number)
    : launch_(launch), random_(launch.options.seed * 104729 + number) {
  const Dim3 &grid = launch.config.grid, &size = launch.config.cluster;
  const Dim3 first = position_of(number, {grid.x / size.x, grid.y / size.y, grid.z / size.z});
  for (std::uint32_t rank = 0; rank < size.count(); ++rank) {
    const Dim3 in = position_of(rank, size);
    const Dim3 at{first.x * size.x + in.x, first.y * size.y + in.y, first.z * size.z + in.z};
    const auto n = static_cast<std::uint32_t>((std::uint64_t{at.z} * grid.y + at.y) * grid.x + at.x);
    blocks_.push_back(std::make_unique<Block>(launch, *this, at, n, rank));
  }
}

void Cluster::order_blocks(std::vector<std::uint32_t>& order) {
  std::iota(order.begin(), order.end(), 0U);
  if (launch_.options.order == Order::descending) std::reverse(order.begin(), order.end());
  if (launch_.options.order == Order::seeded) std::shuffle(order.begin(), order.end(), random_);
}

bool Cluster::run(std::uint64_t budget) {
  std::vector<std::uint32_t> order(blocks_.size());
  const std::uint64_t start = launch_.instructions;
  while (true) {
    order_blocks(order);
    bool all_done = true;
    const std::uint64_t before = launch_.instructions;
    for (const std::uint32_t rank : order) {
      Block& block = *blocks_[rank];
      if (block.done()) continue;
      // A seeded order also switches between blocks in the middle.
      const bool part = launch_.options.order == Order::seeded && blocks_.size() > 1;
      if (!block.run(part ? std::min(budget, 1 + random_() % 2000) : budget)) all_done = false;
    }
    if (all_done) return true;
    if (launch_.instructions == before) {
      const auto waits = [](const auto& block) { return !block->done(); };
      const Block& block = **std::find_if(blocks_.begin(), blocks_.end(), waits);
      launch_.abort(Check::deadlock, block.stands_at(), "all warps wait: " + positions());
    }
    if (launch_.instructions - start >= budget) return false;
  }
}

/// A warp arrives and waits as a whole. For each arrival it has to wait once.
bool Cluster::arrive(Warp& warp, const Instruction& i) {
  ++launch_.barriers;
  if (i.mode == cluster_arrive) {
    if (warp.cluster_arrived != warp.cluster_waited) {
      launch_.abort(Check::barrier, i, "a warp arrives twice at the cluster's barrier without waiting");
    }
    Phase& phase = phases_[warp.cluster_arrived % 2];
    phase.unfenced = phase.unfenced || warp.unfenced;
    phase.waited_for_grid = phase.waited_for_grid || warp.waited_for_grid;
    warp.block().shared().release(warp.index(), phase.seen[warp.block().rank()]);
    ++warp.cluster_arrived;
    try_complete();
    return false;
  }
  if (warp.cluster_arrived == warp.cluster_waited) {
    launch_.abort(Check::barrier, i, "a warp waits at the cluster's barrier without having arrived");
  }
  if (completed_ < warp.cluster_arrived) return true;
  pass(warp);
  return false;
}

void Cluster::pass(Warp& warp) {
  const Phase& phase = phases_[warp.cluster_waited % 2];
  warp.unfenced = warp.unfenced || phase.unfenced;
  warp.waited_for_grid = warp.waited_for_grid || phase.waited_for_grid;
  ++warp.cluster_waited;
  warp.cluster_known = std::max(warp.cluster_known, warp.cluster_waited);
  ++warp.warp_time;
  warp.block().shared().acquire(warp.index(), phase.seen[warp.block().rank()]);
}

void Cluster::try_complete() {
  bool any = false;
  for (const auto& block : blocks_) {
    for (const Warp& w : block->warps()) {
      if (w.alive() == 0) continue;
      if (w.cluster_arrived <= completed_) return;
      any = true;
    }
  }
  if (!any) return;
  std::vector<std::uint32_t> numbers;
  for (const auto& block : blocks_) numbers.push_back(block->number());
  launch_.tracker.meet(numbers, completed_);
  phases_[(completed_ + 1) % 2] = {};
  ++completed_;
  for (const auto& block : blocks_) {
    for (Warp& w : block->warps()) {
      if (w.state() != Warp::State::cluster) continue;
      pass(w);
      w.release();
    }
  }
}

std::string Cluster::positions() const {
  std::string out;
  for (const auto& block : blocks_) {
    const std::string of_block = block->positions();
    if (of_block.empty()) continue;
    if (blocks_.size() > 1) out += (out.empty() ? "block " : "; block ") + std::to_string(block->number()) + ": ";
    out += of_block;
  }
  return out;
}

}  // namespace ptxsim
