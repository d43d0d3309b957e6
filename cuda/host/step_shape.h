// What a step's launches depend on, beside what kernels read from memory: steps of one shape are the same launches.
#pragma once

#include <llminfer/backend/backend.hpp>

#include <cstdint>

namespace llminfer::cuda {

struct StepShape {
  std::int32_t tokens = 0;   ///< rows, those that only fill the batch up included
  std::int32_t outputs = 0;  ///< the same
  std::int32_t longest = 1;  ///< keys of the longest sequence, or more
  std::int32_t many = 0;     ///< rows of sequences with more than attention_few_tokens
  bool hidden = false;       ///< the head is left out
  bool single = false;       ///< each sequence has one token
  bool all_rows = false;  ///< of a filled step every row is wanted, in their order: rows gathered are those there are
  bool filled = false;    ///< numbers are those of a bucket: the step may be recorded and replayed

  friend bool operator==(const StepShape&, const StepShape&) = default;
};

/// The shape that a step of a checked batch runs in. One token a sequence, as when text is written, and at most
/// `limits`: the next bucket (a power of two, or the limit). Everything else, and `exact` steps: as it is.
StepShape shape_of(const backend::StepBatch& batch, const backend::StepOutputs& outputs, const backend::Limits& limits,
                   std::int32_t context, bool exact) noexcept;

}  // namespace llminfer::cuda
