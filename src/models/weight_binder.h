// Joins graph weights to file tensors: each weight is asked for by role and shape, once.
#pragma once

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "format/model_file.h"
#include "graph/builder.h"
#include "models/model_graph.h"

namespace llminfer::models {

/// Shape and treatment of a weight that is asked for.
struct WeightShape {
  std::int64_t columns = 0;
  std::int64_t rows = 1;     ///< 1: a vector, loaded as f32
  std::int64_t experts = 0;  ///< 0: the tensor has no expert dimension
  backend::Cut cut = backend::Cut::none;
  bool keep_type = false;  ///< not converted by BuildOptions::weight_type (routers)
  bool as_f32 = false;     ///< loaded as f32 whatever its type (biases of experts)
};

class WeightBinder {
 public:
  WeightBinder(const format::ModelFile& file, graph::GraphBuilder& builder, const BuildOptions& options)
      : file_(file), builder_(builder), weight_type_(options.weight_type), tensors_(options.memory) {}

  bool has(format::Role role, int layer, bool bias = false) const { return file_.find(role, layer, bias) != nullptr; }

  /// Throws not_found or corrupt naming the tensor.
  backend::WeightId matrix(format::Role role, int layer, const WeightShape& shape, bool bias = false);
  backend::WeightId vector(format::Role role, int layer, std::int64_t columns, bool bias = false);
  /// none when the file does not have it.
  backend::WeightId optional_vector(format::Role role, int layer, std::int64_t columns, bool bias = false);

  /// A tensor whose contents went into the graph itself counts as used.
  void mark_used(const format::TensorInfo& tensor) { used_.emplace(tensor.name, backend::none); }
  /// Throws unsupported_architecture naming the first tensor of the file that no weight was made of.
  void require_all_used() const;

  core::Vector<format::TensorInfo> take_tensors() { return std::move(tensors_); }

 private:
  backend::WeightId bind(const format::TensorInfo& tensor, const WeightShape& shape);

  const format::ModelFile& file_;
  graph::GraphBuilder& builder_;
  WeightType weight_type_;
  core::Vector<format::TensorInfo> tensors_;
  std::map<std::string_view, backend::WeightId> used_;  // by tensor name
};

}  // namespace llminfer::models
