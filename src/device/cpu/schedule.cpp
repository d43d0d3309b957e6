#include "device/cpu/schedule.h"

#include <algorithm>

#include "core/checked.h"
#include "core/fail.h"
#include "device/cpu/slab.h"
#include "graph/op_io.h"

namespace llminfer::cpu {
namespace {

using backend::none;
using backend::ValueId;

PhaseKind kind_of(const backend::Op& op) {
  if (std::holds_alternative<backend::MatMul>(op)) return PhaseKind::matmul;
  if (std::holds_alternative<backend::MoeMatMul>(op)) return PhaseKind::moe_matmul;
  if (std::holds_alternative<backend::PagedAttention>(op)) return PhaseKind::attention;
  return PhaseKind::rows;
}

class Scheduler {
 public:
  Scheduler(const backend::Graph& graph, const backend::Limits& limits, const std::shared_ptr<core::Memory>& memory)
      : graph_(graph),
        limits_(limits),
        memory_(memory),
        quantized_(graph.values.size(), 0, memory),
        writer_(graph.values.size(), none, memory),
        schedule_{core::Vector<Phase>(memory), core::Vector<RowStep>(memory), core::Vector<std::uint64_t>(memory),
                  core::Vector<std::uint64_t>(memory)} {
    // At most a phase or step for each op, and one for the quantized form of each value.
    const std::size_t most = graph.ops.size() + graph.values.size();
    schedule_.phases.reserve(most);
    schedule_.steps.reserve(most);
  }

  Schedule run() {
    find_quantized();
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) add_op(static_cast<std::int32_t>(i));
    place();
    return std::move(schedule_);
  }

 private:
  /// An interval of phases and a size, to be given an offset.
  struct Item {
    std::uint64_t bytes = 0;
    std::int32_t first = 0;
    std::int32_t last = 0;
    std::uint64_t* at = nullptr;
    std::size_t order = 0;  // among those of equal size
  };

  const backend::Value& value(ValueId id) const { return graph_.values[static_cast<std::size_t>(id)]; }

  bool reads_quantized(const backend::Op& op, ValueId& in) const {
    backend::WeightId weight = none;
    if (const auto* m = std::get_if<backend::MatMul>(&op)) {
      weight = m->weight;
      in = m->in;
    } else if (const auto* e = std::get_if<backend::MoeMatMul>(&op)) {
      weight = e->weight;
      in = e->in;
    }
    return weight != none && slab_format(graph_.weights[static_cast<std::size_t>(weight)].type).kind != SlabKind::real;
  }

  void find_quantized() {
    for (const backend::Op& op : graph_.ops) {
      ValueId in = none;
      if (reads_quantized(op, in)) quantized_[static_cast<std::size_t>(in)] = 1;
    }
  }

  /// Rows of the phase that an op belongs to.
  backend::Rows rows_of(const backend::Op& op) const {
    const graph::OpIo io = graph::io_of(op);
    return value(io.out != none ? io.out : io.in[0] != none ? io.in[0] : ValueId{0}).rows;
  }

  /// Whether the op reads something that the phase writes in a way that needs a barrier.
  bool joins(const Phase& phase, PhaseKind kind, const backend::Op& op) const {
    if (phase.kind != kind || phase.rows != rows_of(op) || kind == PhaseKind::attention) return false;
    const std::int32_t index = static_cast<std::int32_t>(schedule_.phases.size()) - 1;
    if (kind == PhaseKind::rows) {
      // gather_rows reads rows of other threads: what it reads must be finished.
      const auto* gather = std::get_if<backend::GatherRows>(&op);
      return gather == nullptr || writer_[static_cast<std::size_t>(gather->in)] != index;
    }
    for (ValueId in : graph::io_of(op).in) {
      if (in != none && writer_[static_cast<std::size_t>(in)] == index) return false;
    }
    return true;
  }

  Phase& phase_for(PhaseKind kind, backend::Rows rows, bool join, std::int32_t op) {
    if (!join) {
      Phase phase;
      phase.kind = kind;
      phase.rows = rows;
      phase.first_op = op;
      phase.first_step = static_cast<std::int32_t>(schedule_.steps.size());
      schedule_.phases.push_back(phase);
    }
    return schedule_.phases.back();
  }

  void add_op(std::int32_t index) {
    const backend::Op& op = graph_.ops[static_cast<std::size_t>(index)];
    const PhaseKind kind = kind_of(op);
    const bool join = !schedule_.phases.empty() && joins(schedule_.phases.back(), kind, op);
    Phase& phase = phase_for(kind, rows_of(op), join, index);
    ++phase.op_count;
    if (kind == PhaseKind::rows) add_step(phase, {index, none});
    const ValueId out = graph::io_of(op).out;
    if (out == none) return;
    writer_[static_cast<std::size_t>(out)] = static_cast<std::int32_t>(schedule_.phases.size()) - 1;
    if (quantized_[static_cast<std::size_t>(out)] != 0) add_quantize(out, kind, index);
  }

  void add_quantize(ValueId id, PhaseKind writer, std::int32_t op) {
    if (value(id).width % 32 != 0) {
      core::fail(ErrorCode::unsupported_type, "a quantized matmul over {} columns, no multiple of 32", value(id).width);
    }
    Phase& phase = phase_for(PhaseKind::rows, value(id).rows, writer == PhaseKind::rows, op + 1);
    add_step(phase, {none, id});
  }

  /// `phase` is the last one.
  void add_step(Phase& phase, RowStep step) {
    schedule_.steps.push_back(step);
    ++phase.step_count;
  }

  std::int64_t row_limit(ValueId id) const {
    return value(id).rows == backend::Rows::tokens ? limits_.tokens : limits_.outputs;
  }

  std::uint64_t value_bytes(ValueId id) const {
    const char* what = "bytes of activations";
    const std::int64_t bytes = core::mul_or_fail<std::int64_t>(
        core::mul_or_fail<std::int64_t>(row_limit(id), value(id).width, what, ErrorCode::out_of_memory), 4, what,
        ErrorCode::out_of_memory);
    return static_cast<std::uint64_t>((bytes + 63) / 64 * 64);
  }

  void place() {
    const std::size_t n = graph_.values.size();
    schedule_.value_at.assign(n, no_place);
    schedule_.quant_at.assign(n, no_place);
    using Phases = core::Vector<std::int32_t>;
    Phases first(n, -1, memory_), last(n, -1, memory_), quant_first(n, -1, memory_), quant_last(n, -1, memory_);
    const auto touch = [](Phases& from, Phases& to, ValueId id, std::int32_t p) {
      if (id == none) return;
      const std::size_t i = static_cast<std::size_t>(id);
      if (from[i] < 0) from[i] = p;
      to[i] = std::max(to[i], p);
    };
    for (std::size_t p = 0; p < schedule_.phases.size(); ++p) {
      const Phase& phase = schedule_.phases[p];
      const std::int32_t at = static_cast<std::int32_t>(p);
      for (std::int32_t i = phase.first_op; i < phase.first_op + phase.op_count; ++i) {
        const backend::Op& op = graph_.ops[static_cast<std::size_t>(i)];
        const graph::OpIo io = graph::io_of(op);
        ValueId quantized = none;
        if (!reads_quantized(op, quantized)) quantized = none;
        touch(quant_first, quant_last, quantized, at);
        for (ValueId id : io.in) {
          if (id != quantized) touch(first, last, id, at);
        }
        touch(first, last, io.out, at);
      }
      for (const RowStep& step : schedule_.steps_of(phase)) {
        touch(first, last, step.quantize, at);
        touch(quant_first, quant_last, step.quantize, at);
      }
    }
    const std::int32_t end = static_cast<std::int32_t>(schedule_.phases.size());
    touch(first, last, graph_.logits, end);
    touch(first, last, graph_.hidden, end);

    core::Vector<Item> items(memory_);
    items.reserve(2 * n);
    for (std::size_t i = 0; i < n; ++i) {
      const ValueId id = static_cast<ValueId>(i);
      if (first[i] >= 0) items.push_back({value_bytes(id), first[i], last[i], &schedule_.value_at[i], items.size()});
      if (quant_first[i] >= 0) {
        items.push_back({quant_bytes(row_limit(id), value(id).width), quant_first[i], quant_last[i],
                         &schedule_.quant_at[i], items.size()});
      }
    }
    place_items(items);
  }

  /// Largest first, each at the lowest offset that is free during its life.
  void place_items(core::Vector<Item>& items) {
    // In the order of the values where sizes are equal; std::stable_sort would take memory that is not counted.
    std::sort(items.begin(), items.end(),
              [](const Item& a, const Item& b) { return a.bytes != b.bytes ? a.bytes > b.bytes : a.order < b.order; });
    core::Vector<const Item*> placed(memory_);  // by offset
    placed.reserve(items.size());
    for (Item& item : items) {
      std::uint64_t at = 0;
      for (const Item* other : placed) {
        if (other->last < item.first || item.last < other->first) continue;
        if (at + item.bytes <= *other->at) break;
        at = std::max(at, *other->at + other->bytes);
      }
      *item.at = at;
      const auto by_offset = [](const Item* a, const Item* b) { return *a->at < *b->at; };
      placed.insert(std::upper_bound(placed.begin(), placed.end(), &item, by_offset), &item);
      schedule_.bytes = std::max(schedule_.bytes,
                                 core::add_or_fail(at, item.bytes, "bytes of activations", ErrorCode::out_of_memory));
    }
  }

  const backend::Graph& graph_;
  const backend::Limits& limits_;
  const std::shared_ptr<core::Memory>& memory_;
  core::Vector<std::uint8_t> quantized_;  // whether an op reads the quantized form of each value
  core::Vector<std::int32_t> writer_;     // phase that writes each value
  Schedule schedule_;
};

}  // namespace

std::uint64_t quant_bytes(std::int64_t rows, std::int64_t width) noexcept {
  const std::int64_t blocks = width / 32;
  return static_cast<std::uint64_t>((rows * (width + 12 * blocks) + 255) / 64 * 64);
}

Schedule make_schedule(const backend::Graph& graph, const backend::Limits& limits,
                       const std::shared_ptr<core::Memory>& memory) {
  return Scheduler(graph, limits, memory).run();
}

}  // namespace llminfer::cpu
