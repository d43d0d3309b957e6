#include "naive_program.hpp"

#include <algorithm>
#include <cstring>

namespace naive {

using llminfer::Error;
using llminfer::ErrorCode;
using llminfer::Result;

std::uint64_t page_floats(const StateGroup& g) noexcept {
  return static_cast<std::uint64_t>(page_size) * static_cast<std::uint64_t>(g.layers) *
         static_cast<std::uint64_t>(g.heads) * static_cast<std::uint64_t>(g.k_width + g.v_width);
}

Cache::Cache(const Graph& graph, KvFormat format, std::span<const std::int32_t> pages)
    : shapes_(graph.states.begin(), graph.states.end()), format_(format), counts_(pages.begin(), pages.end()) {
  for (std::size_t g = 0; g < shapes_.size(); ++g) {
    data_.emplace_back(page_floats(shapes_[g]) * static_cast<std::size_t>(counts_[g]));
  }
}

bool Cache::valid(std::int32_t group, std::int32_t index) const noexcept {
  return group >= 0 && static_cast<std::size_t>(group) < counts_.size() && index >= 0 &&
         index < counts_[static_cast<std::size_t>(group)];
}

float* Cache::page(std::int32_t group, std::int32_t index) const noexcept {
  const auto g = static_cast<std::size_t>(group);
  return data_[g].data() + page_floats(shapes_[g]) * static_cast<std::size_t>(index);
}

std::uint64_t Cache::page_bytes(std::int32_t group) const noexcept {
  const auto g = static_cast<std::size_t>(group);
  return g < shapes_.size() ? page_floats(shapes_[g]) * sizeof(float) : 0;
}

Status Cache::copy_page(std::int32_t group, std::int32_t from, std::int32_t to) noexcept {
  if (!valid(group, from) || !valid(group, to)) return {ErrorCode::invalid_argument, "no such page"};
  if (from != to) std::memcpy(page(group, to), page(group, from), page_bytes(group));
  return {};
}

Status Cache::read_page(std::int32_t group, std::int32_t index, std::span<std::byte> out) const noexcept {
  if (!valid(group, index) || out.size() != page_bytes(group)) return {ErrorCode::invalid_argument, "no such page"};
  std::memcpy(out.data(), page(group, index), out.size());
  return {};
}

Status Cache::write_page(std::int32_t group, std::int32_t index, std::span<const std::byte> in) noexcept {
  if (!valid(group, index) || in.size() != page_bytes(group)) return {ErrorCode::invalid_argument, "no such page"};
  std::memcpy(page(group, index), in.data(), in.size());
  return {};
}

float* Cache::row(StateSlot slot, std::int32_t index, std::int32_t offset, std::int32_t head) noexcept {
  const StateGroup& g = shapes_[static_cast<std::size_t>(slot.group)];
  const std::size_t place = (static_cast<std::size_t>(slot.layer) * page_size + static_cast<std::size_t>(offset)) *
                                static_cast<std::size_t>(g.heads) +
                            static_cast<std::size_t>(head);
  return page(slot.group, index) + place * static_cast<std::size_t>(g.k_width + g.v_width);
}

Activations::Activations(const Graph& graph, const Limits& limits) {
  std::size_t room = static_cast<std::size_t>(graph.context);
  for (const Op& op : graph.ops) {
    if (const auto* route = std::get_if<MoeRoute>(&op))
      room = std::max(room, 2 * static_cast<std::size_t>(route->experts));
  }
  scores.resize(room);
  std::int32_t widest = 1;
  for (const StateGroup& g : graph.states) widest = std::max({widest, g.k_width, g.v_width});
  narrow.resize(static_cast<std::size_t>(widest));
  for (const Value& v : graph.values) {
    const std::int32_t rows = v.rows == Rows::tokens ? limits.tokens : limits.outputs;
    values.emplace_back(static_cast<std::size_t>(rows) * static_cast<std::size_t>(v.width));
  }
}

CompiledGraph::CompiledGraph(std::shared_ptr<const Graph> graph, Limits limits, Weights weights, Formats formats)
    : graph_(std::move(graph)), limits_(limits), weights_(std::move(weights)), formats_(formats) {}

Result<std::unique_ptr<Workspace>> CompiledGraph::workspace() const {
  try {
    return std::unique_ptr<Workspace>(std::make_unique<Activations>(*graph_, limits_));
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::out_of_memory, "activations", "naive workspace"};
  }
}

Result<std::unique_ptr<KvStorage>> CompiledGraph::make_kv(KvFormat format, std::span<const std::int32_t> pages) const {
  const float zero = 0;
  float out = 0;
  if (!formats_.round_cached(format.k, &zero, 1, &out) || !formats_.round_cached(format.v, &zero, 1, &out)) {
    return Error{ErrorCode::unsupported_type, "this format of cached keys or values", "naive make_kv"};
  }
  if (pages.size() != graph_->states.size()) {
    return Error{ErrorCode::invalid_argument, "page counts are not one a state group", "naive make_kv"};
  }
  try {
    return std::unique_ptr<KvStorage>(std::make_unique<Cache>(*graph_, format, pages));
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::out_of_memory, "pages", "naive make_kv"};
  }
}

Status CompiledGraph::run(const StepBatch& batch, KvStorage& kv, Workspace& workspace, const StepOutputs& outputs,
                          const StopFlag& stop, ProfileSink*) const noexcept {
  auto* cache = dynamic_cast<Cache*>(&kv);
  auto* space = dynamic_cast<Activations*>(&workspace);
  if (cache == nullptr || space == nullptr) return {ErrorCode::mismatch, "not of this device"};
  const Status status = check(*graph_, limits_, *cache, batch, outputs);
  if (!status.ok()) return status;
  const std::lock_guard<std::mutex> turn(turn_);
  const Step step{*graph_, weights_, formats_, batch, *cache, *space};
  for (const OpGroup& group : graph_->groups) {
    if (stop.requested()) return {ErrorCode::cancelled, "cancelled"};
    for (std::int32_t i = 0; i < group.count; ++i)
      naive::run(graph_->ops[static_cast<std::size_t>(group.first + i)], step);
  }
  give_out(step, outputs);
  return {};
}

}  // namespace naive
