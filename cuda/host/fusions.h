// Which ops of a graph need no launch of their own, because a product does their work.
#pragma once

#include <llminfer/backend/backend.hpp>

#include <cstdint>
#include <vector>

#include "host/weights.h"

namespace llminfer::cuda {

/// Per op of the graph.
struct Fusions {
  /// A norm over whole rows, or rows gathered, that become fragments at once: whoever reads the output is a product
  /// with fragments, and nothing else makes fragments in between. The output never stands in memory.
  std::vector<bool> into_fragments{};
  /// A norm over whole rows whose output is read by a product with fragments or those of experts, and by other ops:
  /// both are made.
  std::vector<bool> also_into_fragments{};
  /// A product with fragments, or experts combined, whose output is read by nothing but the addition that follows: the
  /// other summand is added at the end, the addition itself is left out.
  std::vector<bool> adds_next{};
  /// The first of two products with fragments (both of experts or none) whose outputs are read by nothing but the gated
  /// activation that follows: all three are one launch.
  std::vector<bool> gates_next{};
  /// The next op is a product with fragments of this one's output.
  std::vector<bool> before_product{};
  /// The rotation of queries, before that of keys in the same way and the writing of these keys, which nothing else
  /// reads: all three are one launch where the cache has one type for both.
  std::vector<bool> rotates_into_cache{};
};

/// A graph to plan memory by: what a launch reads lives as long as what it writes.
backend::Graph with_lives_of_launches(const backend::Graph& graph, const Fusions& fusions);

Fusions find_fusions(const backend::Graph& graph, const WeightPlan& weights);

}  // namespace llminfer::cuda
