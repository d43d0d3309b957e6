// The numbers of a step that kernels read: tokens, positions, page tables. They are gathered in pinned memory and go to
// the GPU in one copy.
#pragma once

#include <llminfer/backend/backend.hpp>

#include <vector>

#include "host/engine.h"
#include "host/step_shape.h"
#include "kernels/kv_layout.h"

namespace llminfer::cuda {

/// Offsets in 32-bit words.
struct StepLayout {
  std::uint64_t tokens = 0;
  std::uint64_t positions = 0;
  std::uint64_t sequence_of = 0;
  std::uint64_t rows = 0;
  std::uint64_t longest = 0;
  std::uint64_t last = 0;
  std::uint64_t firsts = 0;
  std::uint64_t few = 0;
  std::vector<std::uint64_t> pages_at{};  ///< per state group
  std::uint64_t pages = 0;                ///< of all groups, packed
  std::uint64_t words = 0;
};

/// Throws out_of_memory.
StepLayout plan_step(const backend::Graph& graph, const backend::Limits& limits);

class StepData {
 public:
  StepData(const std::shared_ptr<Engine>& engine, const StepLayout& layout);

  /// Starts the copy of a checked batch, filled up to its shape: with token 0 at a negative position, and the first row
  /// as output. Allocates nothing.
  cudaError_t upload(const backend::StepBatch& batch, const StepShape& shape, std::size_t groups,
                     cudaStream_t stream) noexcept;

  const std::int32_t* tokens() const noexcept { return device_.at<std::int32_t>(4 * layout_.tokens); }
  const std::int32_t* positions() const noexcept { return device_.at<std::int32_t>(4 * layout_.positions); }
  const std::int32_t* rows() const noexcept { return device_.at<std::int32_t>(4 * layout_.rows); }
  /// Rows of sequences with no more than attention_few_tokens, where there are others too.
  const std::int32_t* few() const noexcept { return device_.at<std::int32_t>(4 * layout_.few); }
  KvStep of_group(std::int32_t group) const noexcept;

 private:
  std::int32_t* host(std::uint64_t offset) const noexcept { return host_.at<std::int32_t>(4 * offset); }

  const StepLayout& layout_;
  Memory host_;
  Memory device_;
};

}  // namespace llminfer::cuda
