#include "graph/check.h"

#include <cmath>
#include <limits>

#include "core/fail.h"
#include "graph/op_io.h"

namespace llminfer::graph {
namespace {

using namespace backend;  // op structs

/// Checks one op after the other, remembering what is written so far.
class Checker {
 public:
  explicit Checker(const Graph& graph)
      : graph_(graph), written_(graph.values.size(), false), routed_(graph.values.size(), 0) {}

  void run() {
    check_parts();
    for (index_ = 0; index_ < graph_.ops.size(); ++index_) check_op(graph_.ops[index_]);
    check_groups();
    check_result(graph_.logits, "the logits");
    check_result(graph_.hidden, "the hidden state");
  }

 private:
  template <class... Args>
  void expect(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (condition) return;
    const std::string what = fmt::format(format, std::forward<Args>(args)...);
    if (index_ >= graph_.ops.size()) core::fail(ErrorCode::corrupt, "graph: {}", what);
    core::fail(ErrorCode::corrupt, "graph: op {} ({}): {}", index_, name_of(graph_.ops[index_]), what);
  }

  bool written(ValueId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < written_.size() && written_[static_cast<std::size_t>(id)];
  }
  const Value& value(ValueId id) const { return graph_.values[static_cast<std::size_t>(id)]; }
  std::int64_t width(ValueId id) const { return value(id).width; }

  /// The weight behind an id that must exist, with its shape as expected (-1: any).
  const Weight& weight(WeightId id, std::int64_t columns, std::int64_t rows, std::int64_t experts) const {
    expect(id >= 0 && static_cast<std::size_t>(id) < graph_.weights.size(), "weight id {} does not exist", id);
    const Weight& w = graph_.weights[static_cast<std::size_t>(id)];
    const bool fits = (columns < 0 || w.columns == columns) && (rows < 0 || w.rows == rows) && w.experts == experts;
    expect(fits, "weight '{}' has shape [{} x {} x {}], expected [{} x {} x {}]", w.name, w.experts, w.rows, w.columns,
           experts, rows, columns);
    return w;
  }
  void vector_weight(WeightId id, std::int64_t columns) const {
    const Weight& w = weight(id, columns, 1, 1);
    expect(w.type == WeightType::f32, "weight '{}' is {}, expected F32", w.name, describe(w.type).name);
  }
  void optional_vector(WeightId id, std::int64_t columns) const {
    if (id != none) vector_weight(id, columns);
  }

  void check_result(ValueId id, const char* what) const {
    if (id == none) return;
    expect(written(id), "{} are never written (value {})", what, id);
    expect(value(id).rows == Rows::outputs, "{} are not of output rows", what);
  }

  void check_parts() {
    index_ = graph_.ops.size();
    for (const Value& v : graph_.values) expect(v.width > 0, "a value has width {}", v.width);
    for (const Weight& w : graph_.weights) check_weight(w);
    for (const StateGroup& s : graph_.states) {
      expect(s.layers > 0 && s.heads > 0 && s.k_width > 0 && s.v_width >= 0 && s.window >= 0,
             "a state group has layers {}, heads {}, k_width {}, v_width {}, window {}", s.layers, s.heads, s.k_width,
             s.v_width, s.window);
      expect((s.kind == StateKind::windowed) == (s.window > 0), "a state group's kind and its window {} disagree",
             s.window);
    }
    for (const RopeTable& t : graph_.rope_tables) {
      expect(!t.inverse_frequency.empty() && std::isfinite(t.magnitude),
             "a rope table is empty or its magnitude not finite");
      for (const float f : t.inverse_frequency)
        expect(std::isfinite(f), "a rope table has a frequency that is not finite");
    }
    expect(graph_.context > 0, "context is {}", graph_.context);
  }

  void check_weight(const Weight& w) const {
    constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
    const WeightTypeInfo& info = describe(w.type);
    expect(info.block_size > 0, "weight '{}' has no type", w.name);
    expect(w.columns > 0 && w.columns <= limit && w.rows > 0 && w.rows <= limit && w.experts > 0 && w.experts <= limit,
           "weight '{}' has shape [{} x {} x {}]", w.name, w.experts, w.rows, w.columns);
    expect(w.columns % info.block_size == 0, "weight '{}' has rows of {}, not whole blocks of {} ({})", w.name,
           w.columns, info.block_size, info.name);
  }

  void check_op(const Op& op) {
    const OpIo io = io_of(op);
    for (const ValueId id : io.in) {
      if (id == none) continue;
      expect(written(id), "reads value {} before it is written", id);
    }
    if (io.out != none) {
      expect(io.out >= 0 && static_cast<std::size_t>(io.out) < graph_.values.size(), "writes value {}", io.out);
      expect(!written(io.out), "writes value {} a second time", io.out);
    }
    std::visit([this](const auto& o) { shape(o); }, op);
    if (io.in[0] != none && io.out != none && !std::holds_alternative<GatherRows>(op)) {
      for (const ValueId id : io.in) expect(id == none || value(id).rows == value(io.out).rows, "mixes row counts");
    }
    if (io.out == none) return;
    written_[static_cast<std::size_t>(io.out)] = true;
    if (const auto* made = std::get_if<MoeRoute>(&op)) routed_[static_cast<std::size_t>(io.out)] = made->experts;
  }

  void need_in(ValueId id, const char* field) const { expect(id != none, "field {} is missing", field); }

  void same_width(ValueId a, ValueId b) const {
    expect(width(a) == width(b), "widths {} and {} differ", width(a), width(b));
  }

  void shape(const Embed& o) const {
    need_in(o.out, "out");
    weight(o.weight, width(o.out), graph_.vocabulary, 1);
    expect(value(o.out).rows == Rows::tokens, "writes output rows");
  }
  void shape(const RmsNorm& o) const {
    need_in(o.in, "in"), need_in(o.out, "out");
    same_width(o.in, o.out);
    expect(o.group > 0 && width(o.in) % o.group == 0, "group {} does not divide the width {}", o.group, width(o.in));
    expect(o.eps > 0 && std::isfinite(o.eps), "eps is {}", o.eps);
    vector_weight(o.weight, o.group);
  }
  void shape(const LayerNorm& o) const {
    need_in(o.in, "in"), need_in(o.out, "out");
    same_width(o.in, o.out);
    expect(o.eps > 0 && std::isfinite(o.eps), "eps is {}", o.eps);
    vector_weight(o.weight, width(o.in));
    optional_vector(o.bias, width(o.in));
  }
  void shape(const MatMul& o) const {
    need_in(o.in, "in"), need_in(o.out, "out");
    weight(o.weight, width(o.in), width(o.out), 1);
    optional_vector(o.bias, width(o.out));
  }
  void shape(const Rope& o) const {
    need_in(o.in, "in"), need_in(o.out, "out");
    same_width(o.in, o.out);
    expect(o.heads > 0 && o.head_width > 0 && std::int64_t{o.heads} * o.head_width == width(o.in),
           "{} heads of {} are not the width {}", o.heads, o.head_width, width(o.in));
    expect(o.table >= 0 && static_cast<std::size_t>(o.table) < graph_.rope_tables.size(), "table {} does not exist",
           o.table);
    const std::size_t pairs = graph_.rope_tables[static_cast<std::size_t>(o.table)].inverse_frequency.size();
    expect(2 * pairs <= static_cast<std::size_t>(o.head_width), "{} pairs in a head of {}", pairs, o.head_width);
  }
  const StateGroup& state(StateSlot slot) const {
    expect(slot.group >= 0 && static_cast<std::size_t>(slot.group) < graph_.states.size(),
           "state group {} does not exist", slot.group);
    const StateGroup& group = graph_.states[static_cast<std::size_t>(slot.group)];
    expect(slot.layer >= 0 && slot.layer < group.layers, "layer {} of a group of {}", slot.layer, group.layers);
    return group;
  }
  void shape(const KvWrite& o) const {
    need_in(o.k, "k");
    const StateGroup& group = state(o.slot);
    expect(width(o.k) == std::int64_t{group.heads} * group.k_width, "k has width {}, the state {}", width(o.k),
           std::int64_t{group.heads} * group.k_width);
    expect((o.v == none) == (group.v_width == 0), "v is given or missing against the state's v_width {}",
           group.v_width);
    if (o.v == none) return;
    expect(width(o.v) == std::int64_t{group.heads} * group.v_width, "v has width {}, the state {}", width(o.v),
           std::int64_t{group.heads} * group.v_width);
    expect(value(o.k).rows == Rows::tokens && value(o.v).rows == Rows::tokens, "writes output rows");
  }
  void shape(const PagedAttention& o) const {
    need_in(o.q, "q"), need_in(o.out, "out");
    const StateGroup& group = state(o.slot);
    expect(o.heads > 0 && o.heads % group.heads == 0, "{} heads over {} KV heads", o.heads, group.heads);
    expect(width(o.q) == std::int64_t{o.heads} * group.k_width, "q has width {}", width(o.q));
    expect(width(o.out) == std::int64_t{o.heads} * group.v_width, "out has width {}", width(o.out));
    expect(std::isfinite(o.scale) && std::isfinite(o.cap) && o.cap >= 0, "scale {} or cap {}", o.scale, o.cap);
    expect(value(o.q).rows == Rows::tokens, "reads output rows");
    optional_vector(o.sinks, o.heads);
  }
  void shape(const GatedActivation& o) const {
    need_in(o.gate, "gate"), need_in(o.up, "up"), need_in(o.out, "out");
    same_width(o.gate, o.up), same_width(o.gate, o.out);
  }
  void shape(const Add& o) const {
    need_in(o.a, "a"), need_in(o.b, "b"), need_in(o.out, "out");
    same_width(o.a, o.b), same_width(o.a, o.out);
  }
  void shape(const Scale& o) const {
    need_in(o.in, "in"), need_in(o.out, "out");
    same_width(o.in, o.out);
  }
  void shape(const Softcap& o) const {
    need_in(o.in, "in"), need_in(o.out, "out");
    same_width(o.in, o.out);
    expect(o.cap > 0 && std::isfinite(o.cap), "cap is {}", o.cap);
  }
  void shape(const Slice& o) const {
    need_in(o.in, "in"), need_in(o.out, "out");
    expect(o.offset >= 0 && o.offset + width(o.out) <= width(o.in), "columns {} + {} of {}", o.offset, width(o.out),
           width(o.in));
  }
  void shape(const GatherRows& o) const {
    need_in(o.in, "in"), need_in(o.out, "out");
    same_width(o.in, o.out);
    expect(value(o.in).rows == Rows::tokens && value(o.out).rows == Rows::outputs, "row kinds are wrong");
  }
  void route_width(ValueId id, std::int32_t used) const {
    expect(used > 0 && width(id) == 2 * std::int64_t{used}, "a route of width {} for {} experts used", width(id), used);
  }
  /// Experts that a route's ids are below: a device uses them as indices.
  std::int32_t route(ValueId id, std::int32_t used) const {
    need_in(id, "route");
    route_width(id, used);
    const std::int32_t experts = routed_[static_cast<std::size_t>(id)];
    expect(experts > 0, "value {} is no route", id);
    return experts;
  }
  void shape(const MoeRoute& o) const {
    need_in(o.in, "in"), need_in(o.out, "out");
    expect(width(o.in) == o.experts, "router of width {} for {} experts", width(o.in), o.experts);
    expect(o.used > 0 && o.used <= o.experts, "{} of {} experts used", o.used, o.experts);
    expect(o.experts <= 1 << 24, "{} experts: ids are kept as floats", o.experts);
    route_width(o.out, o.used);
    optional_vector(o.selection_bias, o.experts);
  }
  void shape(const MoeMatMul& o) const {
    need_in(o.in, "in"), need_in(o.out, "out");
    const std::int32_t experts = route(o.route, o.used);
    expect(width(o.out) % o.used == 0, "out has width {} for {} experts used", width(o.out), o.used);
    const Weight& w = weight(o.weight, -1, width(o.out) / o.used, experts);
    expect(width(o.in) == w.columns || width(o.in) == w.columns * o.used, "in has width {}, weight '{}' columns {}",
           width(o.in), w.name, w.columns);
    if (o.bias != none) weight(o.bias, w.rows, experts, 1);
  }
  void shape(const MoeCombine& o) const {
    need_in(o.in, "in"), need_in(o.out, "out");
    route(o.route, o.used);
    expect(width(o.in) == width(o.out) * o.used, "in has width {}, out {} for {} experts used", width(o.in),
           width(o.out), o.used);
  }

  void check_groups() const {
    std::int64_t next = 0;
    for (const OpGroup& group : graph_.groups) {
      expect(group.first == next && group.count > 0, "group at op {} follows op {}", group.first, next);
      next += group.count;
    }
    expect(next == static_cast<std::int64_t>(graph_.ops.size()), "groups cover {} of {} ops", next, graph_.ops.size());
  }

  const Graph& graph_;
  std::vector<bool> written_;
  std::vector<std::int32_t> routed_;  ///< per value: experts that a MoeRoute chooses from, 0 where it is no route
  std::size_t index_ = 0;
};

}  // namespace

void check(const Graph& graph) { Checker(graph).run(); }

}  // namespace llminfer::graph
