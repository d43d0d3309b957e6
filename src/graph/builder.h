// Builds a graph op by op: each function adds one op and returns the value it writes.
#pragma once

#include <llminfer/backend/graph.hpp>
#include <memory_resource>

namespace llminfer::graph {

/// Not thread safe. Shapes are checked as a whole by finish(); until then ids are trusted.
class GraphBuilder {
 public:
  /// `memory` is what the graph's lists are taken from, and must outlive it; null: the default resource.
  explicit GraphBuilder(std::pmr::memory_resource* memory = nullptr)
      : graph_(memory != nullptr ? memory : std::pmr::get_default_resource()) {}

  backend::WeightId weight(backend::Weight weight);
  /// Equal tables share one entry.
  std::int32_t rope_table(backend::RopeTable table);
  /// A slot for one more layer; layers of equal window and shape share a state group. window 0: sees everything.
  backend::StateSlot state(std::int32_t window, std::int32_t heads, std::int32_t k_width, std::int32_t v_width);

  /// Ops added from here on belong to this group.
  void group(backend::GroupKind kind, std::int32_t layer = backend::none);

  backend::ValueId embed(backend::WeightId weight, float scale);
  backend::ValueId rms_norm(backend::ValueId in, backend::WeightId weight, std::int32_t group, float eps);
  backend::ValueId layer_norm(backend::ValueId in, backend::WeightId weight, backend::WeightId bias, float eps);
  backend::ValueId matmul(backend::ValueId in, backend::WeightId weight, backend::WeightId bias = backend::none);
  backend::ValueId rope(backend::ValueId in, std::int32_t table, std::int32_t heads, backend::RopePairing pairing);
  void kv_write(backend::ValueId k, backend::ValueId v, backend::StateSlot slot);
  /// `op.q`, `op.slot`, `op.heads` and the rest are the caller's; `op.out` is made here.
  backend::ValueId attention(backend::PagedAttention op);
  backend::ValueId gated_activation(backend::ValueId gate, backend::ValueId up, backend::Activation kind);
  backend::ValueId add(backend::ValueId a, backend::ValueId b);
  backend::ValueId scale(backend::ValueId in, float factor);
  backend::ValueId softcap(backend::ValueId in, float cap);
  backend::ValueId slice(backend::ValueId in, std::int32_t offset, std::int32_t width);
  backend::ValueId gather_rows(backend::ValueId in);
  /// `op.in` and the rest are the caller's; `op.out` is made here.
  backend::ValueId moe_route(backend::MoeRoute op);
  backend::ValueId moe_matmul(backend::ValueId in, backend::ValueId route, std::int32_t used, backend::WeightId weight,
                              backend::WeightId bias = backend::none);
  backend::ValueId moe_combine(backend::ValueId in, backend::ValueId route, std::int32_t used);

  std::int32_t width(backend::ValueId id) const;

  /// The graph, checked (see graph/check.h; throws as it does). The builder is empty afterwards.
  backend::Graph finish(backend::ValueId logits, backend::ValueId hidden, std::int32_t vocabulary,
                        std::int32_t context);

 private:
  backend::ValueId value(std::int32_t width, backend::Rows rows);
  backend::ValueId like(backend::ValueId other, std::int32_t width);
  backend::ValueId push(backend::Op op, backend::ValueId out);

  backend::Graph graph_;
};

}  // namespace llminfer::graph
