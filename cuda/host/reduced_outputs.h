// The best tokens of a step's logits, found on the GPU: what goes back to the host is a few numbers a row.
#pragma once

#include <llminfer/backend/backend.hpp>

#include "host/engine.h"

namespace llminfer::cuda {

class ReducedOutputs {
 public:
  ReducedOutputs(const std::shared_ptr<Engine>& engine, std::int32_t rows, std::int32_t vocabulary);

  /// Of GPU memory, and as many of pinned memory.
  static std::uint64_t bytes(std::int32_t rows, std::int32_t vocabulary) noexcept;

  /// Whether outputs of this kind are found on the GPU; others need the logits on the host.
  static bool takes(const backend::StepOutputs& outputs) noexcept;

  /// Starts the work behind what is on the stream. `logits`: [rows x vocabulary] on the GPU.
  cudaError_t start(const float* logits, std::int32_t rows, const backend::StepOutputs& outputs,
                    cudaStream_t stream) noexcept;

  /// When the stream has come to its end: the results into the caller's spans.
  void finish(std::int32_t rows, const backend::StepOutputs& outputs) const noexcept;

 private:
  // Words of both memories: ids and scores with room for the largest k, log-sum-exp, masks.
  struct Layout {
    std::uint64_t scores, log_sum_exp, masks, words;
  };
  static Layout layout(std::int32_t rows, std::int32_t vocabulary) noexcept;

  std::int32_t vocabulary_;
  Layout layout_;
  Memory device_;
  Memory host_;
};

}  // namespace llminfer::cuda
