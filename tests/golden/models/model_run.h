// Runs a model file on a device through the backend interface alone: builds its graph, compiles it, feeds tokens.
#pragma once

#include <llminfer/backend/backend.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/model_graph.h"

namespace llminfer::test {

class ModelRun {
 public:
  /// Throws what loading throws.
  ModelRun(const std::string& path, const std::shared_ptr<backend::Backend>& device, models::BuildOptions options);

  /// Logits [tokens x vocabulary] of a new sequence, computed `chunk` tokens at a time.
  std::vector<float> logits(std::span<const Token> tokens, std::int32_t chunk);

  const backend::Graph& graph() const { return *graph_; }

 private:
  std::int32_t page_size_;
  std::shared_ptr<const backend::Graph> graph_;
  std::shared_ptr<const backend::Program> program_;
};

}  // namespace llminfer::test
