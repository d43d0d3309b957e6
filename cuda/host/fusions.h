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
  /// A product with fragments whose output is read by nothing but the norm over whole rows that follows, which is read
  /// by nothing but the addition behind it: all three may be one launch, the norm and the addition are at least.
  std::vector<bool> adds_normed{};
  /// The first of two products with fragments (both of experts or none) whose outputs are read by nothing but the gated
  /// activation that follows: all three are one launch.
  std::vector<bool> gates_next{};
  /// A product with fragments whose output is read by nothing but so many slices that follow, each of whole groups of
  /// 64 rows of the weight: every slice is a product of its own, in one launch. 0: none.
  std::vector<std::int32_t> slices{};
  /// Those are two and read by nothing but the gated activation that follows: it is part of the launch too.
  std::vector<bool> gates_slices{};
  /// A product of experts with fragments whose output is read by nothing but the combination that follows: both may be
  /// one launch, and what adds_next says of the combination.
  std::vector<bool> combines_next{};
  /// A product with F32 weights that makes the logits of the choice of experts that follows: both may be one launch.
  std::vector<bool> routes_next{};
  /// The next op is a product with fragments of this one's output.
  std::vector<bool> before_product{};
  /// Attention whose output is gathered and then read by a product with fragments: the value that this reads; or none.
  std::vector<backend::ValueId> before_gathered_product{};
  /// Norms of the heads of queries and keys or none, then rotation of queries, that of keys in the same way and the
  /// writing of these keys, which nothing else reads: so many ops that are one launch. 0: none.
  std::vector<std::int32_t> rotates_into_cache{};
  /// The first of products with fragments of one value, or one that is cut into slices, whose three outputs are the
  /// queries, keys and values of such ops, which follow: so many ops, with those, that need no launch but the
  /// products'. 0: none.
  std::vector<std::int32_t> makes_heads{};

  /// Per value: what a gathered one is where all rows are wanted, in their order. Others: themselves.
  std::vector<backend::ValueId> gathered_from{};

  /// Whether the launch of a product does later ops.
  bool is_more_than_product(std::int32_t op) const {
    const auto i = static_cast<std::size_t>(op);
    return adds_next[i] || adds_normed[i] || gates_next[i] || slices[i] > 0;
  }
};

Fusions find_fusions(const backend::Graph& graph, const WeightPlan& weights);

}  // namespace llminfer::cuda
