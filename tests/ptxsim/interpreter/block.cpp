#include "interpreter/block.h"

#include <algorithm>
#include <numeric>

#include "interpreter/cluster.h"

namespace ptxsim {
namespace {

std::uint32_t threads_of(const LaunchConfig& c) { return static_cast<std::uint32_t>(c.block.count()); }
std::uint32_t warps_of(const LaunchConfig& c) { return (threads_of(c) + 31) / 32; }

/// Static shared memory, then the dynamic one on a multiple of 16.
std::uint32_t shared_bytes(const LaunchState& l) {
  if (l.config.dynamic_shared == 0) return l.kernel.shared_bytes;
  return (l.kernel.shared_bytes + 15) / 16 * 16 + l.config.dynamic_shared;
}

}  // namespace

Block::Block(LaunchState& launch, Cluster& cluster, Dim3 position, std::uint32_t number, std::uint32_t rank)
    : launch_(launch),
      cluster_(cluster),
      position_(position),
      number_(number),
      rank_(rank),
      shared_(shared_bytes(launch), static_cast<int>(warps_of(launch.config))),
      random_(launch.options.seed * 7919 + number) {
  if (launch.options.check_races && launch.config.cluster.count() > 1) shared_.join_cluster();
  warps_.reserve(warps_of(launch.config));
  for (std::uint32_t w = 0; w < warps_of(launch.config); ++w) warps_.emplace_back(*this, w, threads_of(launch.config));
}

std::uint32_t Block::threads_alive() const {
  std::uint32_t n = 0;
  for (const Warp& w : warps_) n += static_cast<std::uint32_t>(__builtin_popcount(w.alive()));
  return n;
}

/// operands[0]: id; operands[1], if there: threads.
bool Block::arrive(Warp& warp, const Instruction& i) {
  if (i.mode == cluster_arrive || i.mode == cluster_wait) return cluster_.arrive(warp, i);
  ++launch_.barriers;
  const std::uint64_t id = warp.value(i.operands[0], 0);
  if (id >= barriers_.size()) launch_.abort(Check::barrier, i, "barrier " + std::to_string(id) + " of 16");
  Barrier& b = barriers_[id];
  const auto expected = i.count > 1 ? static_cast<std::uint32_t>(warp.value(i.operands[1], 0)) : 0U;
  if (expected % 32 != 0) launch_.abort(Check::barrier, i, "a thread count that is no multiple of 32");
  if (b.arrived != 0 && b.expected != expected) {
    launch_.abort(Check::barrier, i, "warps give one barrier different thread counts");
  }
  if (b.arrived != 0 && expected == 0 && b.at != &i) {
    launch_.findings.add(
        Check::barrier, i,
        "warps of a block meet at different barriers, the other at " + source_of(launch_.kernel, *b.at));
  }
  if ((b.arrived >> warp.index() & 1U) != 0) launch_.abort(Check::barrier, i, "a warp arrives twice at one barrier");
  b.at = &i;
  b.expected = expected;
  b.arrived |= 1U << warp.index();
  b.threads += 32;
  if (i.mode == block_sync) b.waiting |= 1U << warp.index();
  if (try_release(b)) return false;
  return i.mode == block_sync;
}

bool Block::try_release(Barrier& b) {
  if (b.arrived == 0) return false;
  bool full = b.expected != 0 && b.threads >= b.expected;
  if (b.expected == 0) {
    full = true;  // all warps that still run
    for (const Warp& w : warps_) full = full && (w.alive() == 0 || (b.arrived >> w.index() & 1U) != 0);
  }
  if (!full) return false;
  bool unfenced = false, waited_for_grid = false;
  std::uint32_t cluster_known = 0;
  for (const Warp& w : warps_) {
    if ((b.arrived >> w.index() & 1U) == 0) continue;
    unfenced = unfenced || w.unfenced;
    waited_for_grid = waited_for_grid || w.waited_for_grid;
    cluster_known = std::max(cluster_known, w.cluster_known);
  }
  for (Warp& w : warps_) {
    if ((b.arrived >> w.index() & 1U) != 0) {
      ++w.warp_time;
      w.unfenced = unfenced;
      w.waited_for_grid = waited_for_grid;
      w.cluster_known = cluster_known;
    }
    if ((b.waiting >> w.index() & 1U) != 0 && w.state() == Warp::State::barrier) w.release();
  }
  shared_.barrier(b.arrived);
  b = {};
  return true;
}

void Block::order_warps(std::vector<std::uint32_t>& order) {
  std::iota(order.begin(), order.end(), 0U);
  if (launch_.options.order == Order::descending) std::reverse(order.begin(), order.end());
  if (launch_.options.order == Order::seeded) std::shuffle(order.begin(), order.end(), random_);
}

bool Block::run(std::uint64_t budget) {
  std::vector<std::uint32_t> order(warps_.size());
  std::uint64_t ran = 0;
  while (true) {
    order_warps(order);
    bool all_done = true;
    bool progress = false;
    for (const std::uint32_t w : order) {
      Warp& warp = warps_[w];
      if (warp.state() == Warp::State::done) continue;
      all_done = false;
      if (warp.state() != Warp::State::ready) continue;
      // A seeded order also switches between warps in the middle.
      const std::uint64_t slice = launch_.options.order == Order::seeded ? 1 + random_() % 400 : 200'000;
      const std::uint64_t n = warp.run(slice);
      ran += n;
      launch_.instructions += n;
      progress = true;
      if (warp.state() == Warp::State::done) {
        for (Barrier& b : barriers_) try_release(b);
        cluster_.leave();
      }
    }
    if (all_done) {
      end();
      return true;
    }
    if (!progress) {
      const auto waits = [](const Warp& w) { return w.state() == Warp::State::cluster; };
      if (std::any_of(warps_.begin(), warps_.end(), waits)) return false;  // the cluster knows whether that has an end
      report_deadlock();
    }
    if (ran >= budget) return false;
  }
}

void Block::end() {
  done_ = true;
  const Instruction* by = mbarriers_.unfinished();
  if (by != nullptr) launch_.findings.add(Check::mbarrier, *by, "the block ends before these bytes have come");
  std::uint32_t known = 0;
  for (const Warp& w : warps_) known = std::max(known, w.cluster_known);
  if (!shared_.used_after(rank_, known)) return;
  // The end itself has no line.
  const auto has_line = [](const Instruction& i) { return i.at.line != 0; };
  const std::vector<Instruction>& code = launch_.kernel.code;
  const auto last = std::find_if(code.rbegin(), code.rend(), has_line);
  const Instruction* at = last != code.rend() ? &*last : &code.back();
  launch_.findings.add(Check::cluster, *at,
                       "block " + std::to_string(number_) + " ends, and nothing orders that behind what other blocks " +
                           "of its cluster do in its shared memory");
}

void Block::report_deadlock() {
  const Instruction* at = nullptr;
  for (const Barrier& b : barriers_) at = b.at != nullptr ? b.at : at;
  launch_.abort(Check::deadlock, at != nullptr ? *at : launch_.kernel.code.front(), "all warps wait: " + positions());
}

/// A warp that waits stands behind its barrier.
const Instruction& Block::place_of(const Warp& warp) const {
  const std::int32_t pc = std::max(warp.position() - (warp.state() == Warp::State::ready ? 0 : 1), 0);
  return launch_.kernel.code[static_cast<std::size_t>(pc)];
}

const Instruction& Block::stands_at() const {
  const auto runs = [](const Warp& w) { return w.alive() != 0; };
  const auto warp = std::find_if(warps_.begin(), warps_.end(), runs);
  return warp != warps_.end() ? place_of(*warp) : launch_.kernel.code.front();
}

std::string Block::positions() const {
  std::string out;
  for (const Warp& w : warps_) {
    if (w.alive() == 0) continue;
    const Instruction& at = place_of(w);
    out += (out.empty() ? "warp " : ", warp ") + std::to_string(w.index()) + " at ";
    const std::string source = source_of(launch_.kernel, at);
    out += source.empty() ? launch_.kernel.texts[at.text] : source;
  }
  return out;
}

}  // namespace ptxsim
