// What an architecture makes of a model file: the graph, and the tensor behind each of its weights.
#pragma once

#include <llminfer/backend/graph.hpp>
#include <memory>
#include <vector>

#include "format/model_file.h"

namespace llminfer::models {

struct BuildOptions {
  int context = 0;  ///< positions the graph must serve; 0: what the model was trained for
  WeightType weight_type = WeightType::as_stored;  ///< type that matrices are converted to while they load
};

struct ModelGraph {
  std::shared_ptr<const backend::Graph> graph;
  std::vector<format::TensorInfo> tensors;  ///< per weight id
};

}  // namespace llminfer::models
