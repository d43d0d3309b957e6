// Puts a case together: weights with their data, ops, steps.
#pragma once

#include <utility>

#include "op_case.h"

namespace llminfer::op_cases {

using backend::none;
using backend::ValueId;
using backend::WeightId;

class CaseBuilder {
 public:
  explicit CaseBuilder(std::string name);

  Random& random() { return random_; }
  backend::Graph& graph() { return graph_; }

  /// Input rows of `width` standard normal values; some of `rows` are special where `specials`: row 1 is zero, row 2 is
  /// 1e-38 times as large, row 3 1e30 times. Token t has row t.
  ValueId input(std::int32_t width, std::int32_t rows, bool specials = false);
  /// Input rows as given, row after row.
  ValueId input(std::int32_t width, std::span<const float> rows);

  WeightId weight(WeightType type, std::int64_t columns, std::int64_t rows, std::int64_t experts, double rms);
  WeightId float_weight(std::int64_t columns, std::int64_t rows, std::span<const float> values);
  /// f32 vector around `mean`.
  WeightId vector(std::int64_t columns, double mean, double spread);

  /// Ops added from here on belong to this group. Without a call all are of one group.
  void group(backend::GroupKind kind, std::int32_t layer);

  /// Adds an op whose `out` is made here, of the same rows as `like`.
  template <class OpType>
  ValueId add(OpType op, ValueId like, std::int32_t width) {
    op.out = value(graph_.values[static_cast<std::size_t>(like)].rows, width);
    push(op);
    return op.out;
  }
  ValueId slice(ValueId in, std::int32_t offset, std::int32_t width);
  ValueId gather(ValueId in);
  void push(backend::Op op);
  ValueId value(backend::Rows rows, std::int32_t width);
  std::int32_t width(ValueId id) const { return graph_.values[static_cast<std::size_t>(id)].width; }

  /// A layer's place in a state group, made or shared as a model's builder does.
  backend::StateSlot state(std::int32_t window, std::int32_t heads, std::int32_t k_width, std::int32_t v_width);

  /// One step; tokens are consecutive table rows, round and round. Every row comes out unless `outputs` says which.
  CaseStep& step(std::vector<Part> parts);
  /// One sequence of n tokens from position `start`.
  CaseStep& step(std::int32_t n, std::int32_t start = 0) { return step({{0, start, n}}); }

  backend::KvFormat kv{KvType::f32, KvType::f32};

  /// The case with `out` as its output (gathered here where it is of all tokens).
  OpCase finish(ValueId out, double limit, double magnitude = 0);

 private:
  std::string name_;
  Random random_;
  backend::Graph graph_;
  std::vector<Bytes> weights_;
  std::vector<CaseStep> steps_;
  std::int32_t next_token_ = 0;
};

}  // namespace llminfer::op_cases
