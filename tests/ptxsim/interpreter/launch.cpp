#include "interpreter/launch.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>

#include "interpreter/cluster.h"

namespace ptxsim {
namespace {

std::vector<std::uint32_t> order_of_clusters(std::uint64_t count, const Options& o) {
  std::vector<std::uint32_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::uint32_t>(i);
  if (o.order == Order::descending) std::reverse(order.begin(), order.end());
  if (o.order == Order::seeded) {
    std::mt19937_64 random(o.seed);
    std::shuffle(order.begin(), order.end(), random);
  }
  return order;
}

void run_blocks(LaunchState& state) {
  const std::uint64_t size = state.config.cluster.count();
  const std::vector<std::uint32_t> order = order_of_clusters(state.config.grid.count() / size, state.options);
  const std::size_t most = std::max<std::size_t>(1, static_cast<std::size_t>(state.options.resident_blocks) / size);
  std::deque<std::unique_ptr<Cluster>> resident;
  std::size_t next = 0;
  while (next < order.size() || !resident.empty()) {
    // One at a time, until one of them does not come to its end.
    while (next < order.size() && (resident.empty() || resident.size() < most)) {
      auto cluster = std::make_unique<Cluster>(state, order[next]);
      ++next;
      if (!cluster->run(state.options.patience)) resident.push_back(std::move(cluster));
    }
    if (resident.empty()) continue;
    std::unique_ptr<Cluster> cluster = std::move(resident.front());
    resident.pop_front();
    if (!cluster->run(state.options.patience)) resident.push_back(std::move(cluster));
    if (state.instructions > state.options.limit && !resident.empty()) {
      state.abort(Check::deadlock, state.kernel.code.front(),
                  "blocks do not come to an end: " + resident.front()->positions());
    }
  }
}

bool check_config(LaunchState& state) {
  const LaunchConfig& c = state.config;
  const auto bad = [&](std::string text) {
    state.findings.add_plain(Check::launch, std::move(text));
    return false;
  };
  const std::uint64_t threads = c.block.count();
  if (threads == 0 || threads > 1024) return bad("blocks of " + std::to_string(threads) + " threads");
  if (state.kernel.max_threads != 0 && threads > state.kernel.max_threads) {
    return bad("blocks of " + std::to_string(threads) + " threads, the kernel states at most " +
               std::to_string(state.kernel.max_threads));
  }
  if (c.grid.count() == 0 || c.grid.x > 0x7fffffffU || c.grid.y > 65535 || c.grid.z > 65535) {
    return bad("a grid that no GPU takes");
  }
  const Dim3& of = c.cluster;
  if (of.count() == 0 || of.count() > max_cluster) return bad("a cluster of " + std::to_string(of.count()) + " blocks");
  if (c.grid.x % of.x != 0 || c.grid.y % of.y != 0 || c.grid.z % of.z != 0) {
    return bad("a grid that is no multiple of its clusters");
  }
  return true;
}

void count_lines(const LaunchState& state, Counters& out) {
  std::map<std::string, LineCounts> lines;
  for (std::size_t i = 0; i < state.kernel.code.size(); ++i) {
    const Instruction& at = state.kernel.code[i];
    if (state.lane_runs[i] == 0) continue;
    const std::string source = source_of(state.kernel, at);
    if (source.empty()) continue;
    LineCounts& line = lines[source];
    line.source = source;
    line.lane_instructions += state.lane_runs[i];
    (at.op_class == OpClass::shared ? line.shared_wavefronts : line.global_sectors) += state.accesses[i].sectors;
  }
  for (auto& [name, line] : lines) out.lines.push_back(std::move(line));
  std::sort(out.lines.begin(), out.lines.end(),
            [](const LineCounts& a, const LineCounts& b) { return a.lane_instructions > b.lane_instructions; });
}

/// flags bit 0: a store; mode of matrix instructions: FLOPs of one. Floating instructions: mode is FLOPs a lane.
Counters count(const LaunchState& state) {
  Counters out;
  for (std::size_t i = 0; i < state.kernel.code.size(); ++i) {
    const Instruction& at = state.kernel.code[i];
    const AccessCounts& a = state.accesses[i];
    out.warp_instructions += state.warp_runs[i];
    out.lane_instructions += state.lane_runs[i];
    out.lanes_by_class[static_cast<std::size_t>(at.op_class)] += state.lane_runs[i];
    if (at.op_class == OpClass::shared || at.op_class == OpClass::async) {
      out.shared_requests += a.requests;
      out.shared_wavefronts += at.op_class == OpClass::shared ? a.sectors : 0;
      out.shared_ideal += at.op_class == OpClass::shared ? a.ideal : 0;
    }
    if (at.op_class == OpClass::global || at.op_class == OpClass::async) {
      ((at.flags & 1) != 0 ? out.global_stores : out.global_loads) += a.requests;
      out.global_bytes += a.lane_bytes;
      out.global_sectors += a.sectors;
      if (at.vector * bytes_of(at.type) == 16 || at.op_class == OpClass::async) out.global_wide_bytes += a.lane_bytes;
    }
    if (at.op_class == OpClass::atomic) out.atomics += state.lane_runs[i];
    if (at.op_class == OpClass::matrix && at.mode > 0) {
      out.mma += state.warp_runs[i];
      out.flops += state.warp_runs[i] * static_cast<std::uint64_t>(at.mode);
    }
    if (at.op_class == OpClass::floating) out.flops += state.lane_runs[i] * static_cast<std::uint64_t>(at.mode);
  }
  out.unique_sectors = state.tracker.unique_sectors();
  out.barriers = state.barriers;
  out.cluster_bytes = state.cluster_bytes;
  out.arguments = state.arguments.counts();
  if (state.options.count_accesses) count_lines(state, out);
  return out;
}

}  // namespace

void LaunchState::abort(Check check, const Instruction& at, std::string text) {
  findings.add(check, at, std::move(text));
  throw Abort{};
}

LaunchResult launch(const Kernel& kernel, const LaunchConfig& config, std::span<const std::byte> parameters,
                    DeviceMemory& memory, GlobalTracker& tracker, const Options& options) {
  LaunchState state{kernel, config, options, memory, tracker, Findings(kernel), Arguments(parameters, memory)};
  state.parameters.assign(parameters.begin(), parameters.end());
  state.parameters.resize(kernel.parameter_bytes + 16);
  state.warp_runs.resize(kernel.code.size());
  state.lane_runs.resize(kernel.code.size());
  state.accesses.resize(kernel.code.size());
  tracker.start_launch(options.early, static_cast<std::uint32_t>(config.grid.count()));
  LaunchResult result;
  try {
    if (check_config(state)) {
      run_blocks(state);
      result.completed = true;
    }
  } catch (const Abort&) {
    result.completed = false;
  }
  result.counters = count(state);
  result.findings = state.findings.take();
  return result;
}

}  // namespace ptxsim
