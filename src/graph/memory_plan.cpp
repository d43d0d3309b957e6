#include "graph/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/fail.h"
#include "graph/op_io.h"

namespace llminfer::graph {
namespace {

using backend::none;

struct Life {
  std::size_t first = 0;
  std::size_t last = 0;
};

core::Vector<Life> lives_of(const backend::Graph& graph, const std::shared_ptr<core::Memory>& memory) {
  core::Vector<Life> lives(graph.values.size(), memory);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const OpIo io = io_of(graph.ops[i]);
    if (io.out != none) lives[static_cast<std::size_t>(io.out)] = {i, i};
    for (const backend::ValueId id : io.in) {
      if (id != none) lives[static_cast<std::size_t>(id)].last = i;
    }
  }
  for (const backend::ValueId id : {graph.logits, graph.hidden}) {
    if (id != none) lives[static_cast<std::size_t>(id)].last = graph.ops.size();
  }
  return lives;
}

struct Placed {
  std::uint64_t begin;
  std::uint64_t end;
};

/// The lowest gap of `bytes` between `taken`, which is sorted by begin.
std::uint64_t lowest_gap(const core::Vector<Placed>& taken, std::uint64_t bytes) {
  std::uint64_t offset = 0;
  for (const Placed& p : taken) {
    if (p.begin >= offset && p.begin - offset >= bytes) break;
    offset = std::max(offset, p.end);
  }
  return offset;
}

}  // namespace

std::uint64_t value_bytes(const backend::Value& value, const backend::Limits& limits) {
  const std::int32_t rows = value.rows == backend::Rows::tokens ? limits.tokens : limits.outputs;
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(value.width) * sizeof(float);
  return (bytes + 63) / 64 * 64;
}

MemoryPlan plan_memory(const backend::Graph& graph, const backend::Limits& limits,
                       const std::shared_ptr<core::Memory>& memory) {
  const core::Vector<Life> lives = lives_of(graph, memory);
  MemoryPlan plan{core::Vector<std::uint64_t>(graph.values.size(), 0, memory)};

  // Largest first: the big activations then decide the total and the small ones fill the gaps.
  core::Vector<std::size_t> order(graph.values.size(), memory);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return value_bytes(graph.values[a], limits) > value_bytes(graph.values[b], limits);
  });

  core::Vector<std::size_t> done(memory);
  core::Vector<Placed> taken(memory);
  for (const std::size_t id : order) {
    taken.clear();
    for (const std::size_t other : done) {
      const bool apart = lives[other].last < lives[id].first || lives[id].last < lives[other].first;
      if (!apart)
        taken.push_back({plan.offsets[other], plan.offsets[other] + value_bytes(graph.values[other], limits)});
    }
    std::sort(taken.begin(), taken.end(), [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
    const std::uint64_t bytes = value_bytes(graph.values[id], limits);
    plan.offsets[id] = lowest_gap(taken, bytes);
    plan.total = std::max(plan.total, plan.offsets[id] + bytes);
    if (plan.total > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      core::fail(ErrorCode::out_of_memory, "activations of {} tokens need more than 2^63 bytes", limits.tokens);
    }
    done.push_back(id);
  }
  return plan;
}

}  // namespace llminfer::graph
