// Ops as plain loops over tensors that count: which bytes were read and written, each once, and how many operations
// were done. Values are not computed: what an op touches does not depend on them, but for the choice of experts, which
// is made up here.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "graph/cost.h"

namespace llminfer::tests {

/// Bytes of one tensor in units of `unit` bytes that are touched together (a float, a quantized block).
class CountedTensor {
 public:
  CountedTensor(std::size_t units, std::size_t unit) : touched_(units, false), unit_(unit) {}
  void touch(std::size_t index) {
    if (touched_.at(index)) return;
    touched_[index] = true;
    bytes_ += unit_;
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::vector<bool> touched_;
  std::size_t unit_;
  std::uint64_t bytes_ = 0;
};

/// A step: as BatchShape, with what the loops need besides.
struct CountedStep {
  graph::BatchShape shape{};
  std::vector<Token> tokens{};
  std::vector<std::int32_t> output_rows{};
};

/// The experts that row `row` of MoE layer `layer` chooses: `used` different ones, of a pattern.
std::vector<std::int32_t> chosen_experts(std::size_t layer, std::size_t row, std::int32_t experts, std::int32_t used);

/// Fills distinct_tokens and experts_hit of the shape as these loops will choose.
void complete(const backend::Graph& graph, CountedStep& step);

/// Cost of op `index`, counted.
graph::OpCost count_op(const backend::Graph& graph, std::size_t index, const CountedStep& step);

}  // namespace llminfer::tests
