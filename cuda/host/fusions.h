// Which ops of a graph need no launch of their own, because a product does their work.
#pragma once

#include <llminfer/backend/backend.hpp>

#include <cstdint>
#include <vector>

#include "host/weights.h"

namespace llminfer::cuda {

/// Per op of the graph.
struct Fusions {
  /// A norm over whole rows or a gated activation whose output is read by nothing but products with fragments that
  /// follow at once: it is computed while the fragments are made, and never stands in memory.
  std::vector<bool> into_fragments{};
  /// A product with fragments whose output is read by nothing but the addition that follows: the other summand is added
  /// at the end of the product, the addition itself is left out.
  std::vector<bool> adds_next{};
};

Fusions find_fusions(const backend::Graph& graph, const WeightPlan& weights);

}  // namespace llminfer::cuda
