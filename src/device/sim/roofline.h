// How long a step takes on a described device: each op the longer of moving its bytes and doing its operations.
//
//   time = sum over ops of max(bytes / (bandwidth * bandwidth_share), operations / (rate * compute_share))
//          + groups of ops * group_overhead + step_overhead
//
// Bytes are those of graph/cost. An op's activations count only where they are larger than the cache: the op before
// left them there. Embedding rows, norms and the like run at the f32 rate, products at the rate of their weights' type.
#pragma once

#include <cstdint>
#include <llminfer/device_description.hpp>
#include <vector>

#include "graph/batch_cost.h"

namespace llminfer::device::sim {

class Roofline {
 public:
  Roofline(const DeviceDescription& description, const backend::Graph& graph, backend::KvFormat kv);

  /// Nanoseconds, at least 1. Allocates nothing.
  std::int64_t step_ns(const graph::BatchTotals& totals) const noexcept;

 private:
  graph::BatchCost cost_;
  std::vector<double> ns_per_operation_;  // of each kind of op
  double ns_per_byte_;
  double cache_bytes_;
  double overhead_ns_;  // of a step
};

}  // namespace llminfer::device::sim
