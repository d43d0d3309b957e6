// Weights on the device: in the bytes of the file, or repacked into the order that the tensor cores read.
#pragma once

#include <llminfer/backend/backend.hpp>

#include <cstdint>
#include <memory>
#include <vector>

#include "host/engine.h"

namespace llminfer::cuda {

enum class WeightForm : std::uint8_t {
  file,       ///< rows as they stand in the file
  fragments,  ///< in the order of mma.sync's A operand, see repack.h
};

struct PlacedWeight {
  WeightForm form = WeightForm::file;
  std::uint64_t offset = 0;     ///< in the arena, a multiple of 256
  std::uint64_t bytes = 0;      ///< all of it
  std::uint64_t row_bytes = 0;  ///< in the file
  std::uint64_t copy = 0;       ///< of a weight that is needed in both forms: offset of the file's bytes; 0: not needed
};

struct WeightPlan {
  std::vector<PlacedWeight> weights{};  ///< by WeightId
  std::uint64_t bytes = 0;
};

/// Which weights are only read by products, of all rows or of experts, become fragments where there is a kernel for
/// their type.
WeightPlan plan_weights(const backend::Graph& graph);

/// Reads, repacks and uploads everything. Throws what the reader returns, cancelled, out_of_memory, device_lost.
Memory load_weights(const backend::Graph& graph, const WeightPlan& plan, const backend::WeightReader& reader,
                    const backend::CompileOptions& options, const std::shared_ptr<Engine>& engine);

}  // namespace llminfer::cuda
