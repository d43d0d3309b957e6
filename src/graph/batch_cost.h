// The cost of a step from a few totals over its batch, for callers that ask millions of times: cost_of() counts each op
// anew, this evaluates about twenty linear forms. They are taken from cost_of() itself, by asking it about small
// batches, so that there is one place that counts.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "graph/cost.h"

namespace llminfer::graph {

/// All that the cost of a batch depends on. Reused from step to step; allocates only when it is made.
class BatchTotals {
 public:
  explicit BatchTotals(const backend::Graph& graph);
  void clear() noexcept;
  void add(const SequenceShape& sequence) noexcept;

  std::uint64_t tokens = 0;  ///< of all sequences added
  std::uint64_t outputs = 0;
  std::uint64_t distinct_tokens = 0;  ///< as BatchShape's
  std::size_t groups() const noexcept { return keys_.size(); }
  const VisibleKeys& keys(std::size_t group) const noexcept { return keys_[group]; }

 private:
  std::vector<std::int64_t> windows_;  // of each state group
  std::vector<VisibleKeys> keys_;      // of each state group, summed
};

/// The cost of every batch on one graph with one cache format. Experts count by expected value.
class BatchCost {
 public:
  /// What the forms are linear in.
  enum Term : std::uint8_t {
    any_token,   ///< 1 if there is a token
    any_output,  ///< 1 if there is an output row
    token,
    output,
    distinct_token,
    key,     ///< VisibleKeys::distinct of the op's state group
    pair,    ///< VisibleKeys::pairs of the op's state group
    expert,  ///< experts hit
    terms
  };
  using Form = std::array<OpCost, Term::terms>;

  /// Ops that cost the same in every batch: same kind of op, type of weight, state group and form.
  struct Kind {
    std::size_t op = 0;  ///< index of the first of them
    std::uint64_t count = 0;
    std::size_t group = 0;  ///< state group; 0 where the op has none
    std::int64_t experts = 0;
    std::int32_t experts_used = 0;
    backend::Rows expert_rows = backend::Rows::tokens;
    Form form{};
  };

  BatchCost(const backend::Graph& graph, backend::KvFormat kv);

  const std::vector<Kind>& kinds() const noexcept { return kinds_; }
  /// Of one op of the kind.
  static OpCost cost(const Kind& kind, const BatchTotals& totals) noexcept;
  /// Of all ops of the graph.
  OpCost total(const BatchTotals& totals) const noexcept;

 private:
  std::vector<Kind> kinds_;
};

}  // namespace llminfer::graph
