// What an architecture makes of a model file: the graph, and the tensor behind each of its weights.
#pragma once

#include <llminfer/backend/graph.hpp>
#include <memory>
#include <vector>

#include "core/vector.h"
#include "format/model_file.h"

namespace llminfer::models {

struct BuildOptions {
  int context = 0;  ///< positions the graph must serve; 0: what the model was trained for
  WeightType weight_type = WeightType::as_stored;  ///< type that matrices are converted to while they load
  std::shared_ptr<core::Memory> memory = std::make_shared<core::Memory>();  ///< of the graph and the list of tensors
};

struct ModelGraph {
  std::shared_ptr<const backend::Graph> graph;
  core::Vector<format::TensorInfo> tensors;  ///< per weight id
};

}  // namespace llminfer::models
