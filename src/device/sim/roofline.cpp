#include "device/sim/roofline.h"

#include <algorithm>
#include <cmath>

namespace llminfer::device::sim {
namespace {

constexpr double longest_step_ns = 1e15;  // eleven days

/// The arithmetic that an op runs in.
MultiplyAdd arithmetic(const DeviceDescription& description, const backend::Graph& graph, const backend::Op& op) {
  if (std::holds_alternative<backend::PagedAttention>(op)) return description.attention;
  backend::WeightId weight = backend::none;
  if (const auto* product = std::get_if<backend::MatMul>(&op)) weight = product->weight;
  if (const auto* product = std::get_if<backend::MoeMatMul>(&op)) weight = product->weight;
  if (weight == backend::none) return MultiplyAdd::f32;
  switch (graph.weights[static_cast<std::size_t>(weight)].type) {
    case WeightType::f32:
      return MultiplyAdd::f32;
    case WeightType::f16:
    case WeightType::bf16:
      return description.half;
    default:
      return description.quantized;
  }
}

}  // namespace

Roofline::Roofline(const DeviceDescription& description, const backend::Graph& graph, backend::KvFormat kv)
    : cost_(graph, kv),
      ns_per_byte_(1e9 / (description.bandwidth.value * description.bandwidth_share.value)),
      cache_bytes_(description.cache.value),
      overhead_ns_(1e9 * (description.step_overhead.value +
                          static_cast<double>(graph.groups.size()) * description.group_overhead.value)) {
  for (const graph::BatchCost::Kind& kind : cost_.kinds()) {
    const double rate = description.rate(arithmetic(description, graph, graph.ops[kind.op])).value;
    ns_per_operation_.push_back(1e9 / (rate * description.compute_share.value));
  }
}

std::int64_t Roofline::step_ns(const graph::BatchTotals& totals) const noexcept {
  double ns = overhead_ns_;
  for (std::size_t i = 0; i < cost_.kinds().size(); ++i) {
    const graph::BatchCost::Kind& kind = cost_.kinds()[i];
    const graph::OpCost cost = graph::BatchCost::cost(kind, totals);
    auto bytes = static_cast<double>(cost.weight_bytes + cost.kv_read_bytes + cost.kv_write_bytes);
    const auto activations = static_cast<double>(cost.activation_bytes);
    if (activations > cache_bytes_) bytes += activations;
    const double longer = std::max(bytes * ns_per_byte_, static_cast<double>(cost.flops) * ns_per_operation_[i]);
    ns += static_cast<double>(kind.count) * longer;
  }
  return static_cast<std::int64_t>(std::llround(std::clamp(ns, 1.0, longest_step_ns)));
}

}  // namespace llminfer::device::sim
