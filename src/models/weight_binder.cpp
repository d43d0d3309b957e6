#include "models/weight_binder.h"

#include <string>

#include "core/fail.h"

namespace llminfer::models {

using backend::WeightId;
using format::Role;
using format::TensorInfo;

WeightId WeightBinder::bind(const TensorInfo& tensor, const WeightShape& shape) {
  const auto found = used_.find(tensor.name);
  if (found != used_.end()) return found->second;  // tied embedding and head
  backend::Weight weight;
  weight.name = std::string(tensor.name);
  weight.columns = shape.columns;
  weight.rows = shape.rows;
  weight.experts = shape.experts > 0 ? shape.experts : 1;
  weight.cut = shape.cut;
  weight.type = tensor.type;
  if (shape.as_f32) {
    weight.type = WeightType::f32;
  } else if (weight_type_ != WeightType::as_stored && !shape.keep_type) {
    // A row that is not whole blocks of the wanted type keeps its own.
    if (shape.columns % describe(weight_type_).block_size == 0) weight.type = weight_type_;
  }
  tensors_.push_back(tensor);
  const WeightId id = builder_.weight(std::move(weight));
  used_.emplace(tensor.name, id);
  return id;
}

WeightId WeightBinder::matrix(Role role, int layer, const WeightShape& shape, bool bias) {
  const TensorInfo& tensor = shape.experts > 0
                                 ? file_.require(role, layer, {shape.columns, shape.rows, shape.experts}, bias)
                                 : file_.require(role, layer, {shape.columns, shape.rows}, bias);
  return bind(tensor, shape);
}

WeightId WeightBinder::vector(Role role, int layer, std::int64_t columns, bool bias) {
  WeightShape shape;
  shape.columns = columns;
  shape.as_f32 = true;
  return bind(file_.require(role, layer, {columns}, bias), shape);
}

WeightId WeightBinder::optional_vector(Role role, int layer, std::int64_t columns, bool bias) {
  return has(role, layer, bias) ? vector(role, layer, columns, bias) : backend::none;
}

void WeightBinder::require_all_used() const {
  for (const TensorInfo& tensor : file_.tensors()) {
    if (used_.count(tensor.name) != 0) continue;
    core::fail(ErrorCode::unsupported_architecture, "tensor '{}' has no place in architecture '{}'", tensor.name,
               file_.architecture());
  }
}

}  // namespace llminfer::models
