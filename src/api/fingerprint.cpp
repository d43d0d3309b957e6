#include "api/fingerprint.h"

#include <bit>
#include <random>

#include "core/checked.h"
#include "quant/type_table.h"

namespace llminfer::api {
namespace {

using namespace backend;  // NOLINT(google-build-using-namespace): all ops

void put(core::Hasher& hasher, float value) { hasher.update_value(std::bit_cast<std::uint32_t>(value)); }
void put(core::Hasher& hasher, std::int32_t value) { hasher.update_value(value); }
void put(core::Hasher& hasher, std::int64_t value) { hasher.update_value(value); }
template <class... Values>
void put_all(core::Hasher& hasher, Values... values) {
  (put(hasher, values), ...);
}

/// The constants of an op; its operands follow from the weights.
struct Constants {
  core::Hasher& hasher;
  template <class Op>
  void operator()(const Op&) const {}
  void operator()(const Embed& op) const { put(hasher, op.scale); }
  void operator()(const RmsNorm& op) const { put_all(hasher, op.group, op.eps); }
  void operator()(const LayerNorm& op) const { put(hasher, op.eps); }
  void operator()(const Rope& op) const {
    put_all(hasher, op.table, op.heads, op.head_width, static_cast<std::int32_t>(op.pairing));
  }
  void operator()(const KvWrite& op) const { put_all(hasher, op.slot.group, op.slot.layer); }
  void operator()(const PagedAttention& op) const {
    put_all(hasher, op.slot.group, op.slot.layer, op.heads, op.scale, op.cap, static_cast<std::int32_t>(op.mode));
  }
  void operator()(const GatedActivation& op) const {
    put_all(hasher, static_cast<std::int32_t>(op.kind), op.alpha, op.limit);
  }
  void operator()(const Scale& op) const { put(hasher, op.factor); }
  void operator()(const Softcap& op) const { put(hasher, op.cap); }
  void operator()(const Slice& op) const { put(hasher, op.offset); }
  void operator()(const MoeRoute& op) const {
    put_all(hasher, op.experts, op.used, static_cast<std::int32_t>(op.gating), static_cast<std::int32_t>(op.normalize),
            op.scale);
  }
};

void put_weight(core::Hasher& hasher, const Graph& graph, WeightId id, const WeightReader& weights,
                std::vector<std::byte>& row) {
  const Weight& w = graph.weights[static_cast<std::size_t>(id)];
  put_all(hasher, static_cast<std::int64_t>(w.name.size()), static_cast<std::int32_t>(w.type), w.columns, w.rows,
          w.experts);
  hasher.update(std::as_bytes(std::span(w.name)));
  const std::int64_t last = core::mul_or_fail(w.rows, w.experts, "rows of a weight") - 1;
  row.resize(quant::row_bytes(w.type, static_cast<std::uint64_t>(w.columns)));
  for (const std::int64_t r : {std::int64_t{0}, last / 3, last / 3 * 2, last}) {
    weights.read_rows(id, r, 1, row).value();
    hasher.update(row);
  }
}

}  // namespace

core::HashKey random_key() {
  std::random_device random;
  const auto word = [&random] { return static_cast<std::uint64_t>(random()) << 32 | random(); };
  return {word(), word()};
}

core::Hash128 fingerprint(const Graph& graph, const WeightReader& weights) {
  core::Hasher hasher;
  put_all(hasher, graph.vocabulary, static_cast<std::int64_t>(graph.weights.size()),
          static_cast<std::int64_t>(graph.ops.size()), static_cast<std::int64_t>(graph.states.size()));
  for (const Value& v : graph.values) put_all(hasher, static_cast<std::int32_t>(v.rows), v.width);
  for (const StateGroup& s : graph.states) put_all(hasher, s.window, s.layers, s.heads, s.k_width, s.v_width);
  for (const RopeTable& t : graph.rope_tables) {
    put_all(hasher, static_cast<std::int64_t>(t.inverse_frequency.size()), t.magnitude);
    for (const float f : t.inverse_frequency) put(hasher, f);
  }
  for (const Op& op : graph.ops) {
    put(hasher, static_cast<std::int32_t>(op.index()));
    std::visit(Constants{hasher}, op);
  }
  std::vector<std::byte> row;
  for (std::size_t i = 0; i < graph.weights.size(); ++i) {
    put_weight(hasher, graph, static_cast<WeightId>(i), weights, row);
  }
  return hasher.finish();
}

}  // namespace llminfer::api
