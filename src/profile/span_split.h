// A span may cover several ops that a device ran as one: its time is divided among them by what each would take.
#pragma once

#include <cstdint>
#include <vector>

#include "profile/cost_model.h"

namespace llminfer::profile {

/// Costs and roof times of all ops of a graph for one batch. Sized once, filled for each step without allocation.
class StepCosts {
 public:
  explicit StepCosts(const backend::Graph& graph) : costs_(graph.ops.size()), roofs_(graph.ops.size()) {}

  void fill(const backend::Graph& graph, const graph::BatchShape& batch, const CostModel& model) {
    resident_ = model.resident(graph, batch);
    for (std::size_t i = 0; i < costs_.size(); ++i) {
      costs_[i] = graph::cost_of(graph, i, batch);
      roofs_[i] = model.roof(graph, i, costs_[i], batch.kv, resident_);
    }
  }

  const graph::OpCost& cost(std::size_t op) const noexcept { return costs_[op]; }
  double roof(std::size_t op) const noexcept { return roofs_[op].seconds(); }
  const RoofTime& roof_time(std::size_t op) const noexcept { return roofs_[op]; }
  bool resident() const noexcept { return resident_; }

  /// Calls take(op, share) for each op of the span; the shares add up to 1. A span without ops (an intermediate step of
  /// a device's own) belongs to the op before it.
  template <class Take>
  void split(const backend::OpSpan& span, Take&& take) const {
    const auto size = static_cast<std::int64_t>(costs_.size());
    const std::int64_t first = span.first_op < size ? span.first_op : size - 1, end = first + span.op_count;
    if (first < 0 || size == 0) return;
    if (span.op_count <= 0 || end > size) return take(static_cast<std::size_t>(first > 0 ? first - 1 : 0), 1.0);
    double sum = 0;
    for (std::int64_t i = first; i < end; ++i) sum += roofs_[static_cast<std::size_t>(i)].seconds();
    for (std::int64_t i = first; i < end; ++i) {
      const auto op = static_cast<std::size_t>(i);
      take(op, sum > 0 ? roofs_[op].seconds() / sum : 1.0 / static_cast<double>(span.op_count));
    }
  }

 private:
  std::vector<graph::OpCost> costs_;
  std::vector<RoofTime> roofs_;
  bool resident_ = false;
};

}  // namespace llminfer::profile
