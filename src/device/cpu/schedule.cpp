#include "device/cpu/schedule.h"

#include <algorithm>

#include "core/checked.h"
#include "core/fail.h"
#include "device/cpu/fusion.h"
#include "device/cpu/slab.h"
#include "graph/op_io.h"

namespace llminfer::cpu {
namespace {

using backend::none;
using backend::ValueId;

constexpr std::int64_t most_own_width = 1 << 16;  // floats of a row that each thread may keep for itself

PhaseKind kind_of(const backend::Op& op) {
  if (std::holds_alternative<backend::MatMul>(op)) return PhaseKind::matmul;
  if (std::holds_alternative<backend::MoeMatMul>(op)) return PhaseKind::moe_matmul;
  if (std::holds_alternative<backend::PagedAttention>(op)) return PhaseKind::attention;
  return PhaseKind::rows;
}

class Scheduler {
 public:
  Scheduler(const backend::Graph& graph, const backend::Limits& limits, ScheduleKind kind,
            const std::shared_ptr<core::Memory>& memory)
      : graph_(graph),
        limits_(limits),
        few_(kind == ScheduleKind::few_rows),
        memory_(memory),
        quantized_(graph.values.size(), 0, memory),
        writer_(graph.values.size(), none, memory),
        schedule_{core::Vector<Phase>(memory),         core::Vector<RowStep>(memory),
                  core::Vector<ProductPart>(memory),   core::Vector<std::uint64_t>(memory),
                  core::Vector<std::uint64_t>(memory), core::Vector<std::uint8_t>(memory),
                  core::Vector<std::uint8_t>(memory)} {
    // At most a phase or step for each op, and one for the quantized form of each value.
    const std::size_t most = graph.ops.size() + graph.values.size();
    schedule_.phases.reserve(most);
    schedule_.steps.reserve(most);
    schedule_.parts.reserve(graph.ops.size());  // each is a product's or a slice's
  }

  Schedule run() {
    find_quantized();
    const std::int32_t count = static_cast<std::int32_t>(graph_.ops.size());
    for (std::int32_t i = 0; i < count;) {
      const HeadRun run = few_ ? find_head_run(graph_, i) : HeadRun{};
      if (run.products > 0 && !any_quantized(i, run.end)) {
        add_head_run(i, run);
        i = run.end;
      } else if (const std::int32_t slices = slices_of_product(i); slices > 0) {
        add_slices(i, slices);
        i += slices;
      } else {
        add_op(i++);
      }
    }
    find_parts();
    find_own();
    find_logits();
    find_hidden();
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
    if (kind != PhaseKind::rows && phase.step_count > 0) return false;
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

  bool any_quantized(std::int32_t first, std::int32_t end) const {
    for (std::int32_t i = first; i < end; ++i) {
      const ValueId out = graph::io_of(graph_.ops[static_cast<std::size_t>(i)]).out;
      if (out != none && quantized_[static_cast<std::size_t>(out)] != 0) return true;
    }
    return false;
  }

  bool written_by_last(ValueId id) const {
    return id != none &&
           writer_[static_cast<std::size_t>(id)] == static_cast<std::int32_t>(schedule_.phases.size()) - 1;
  }

  /// How many slices from op `first` on divide the last phase's only product into equal parts, for what follows column
  /// by column.
  std::int32_t slices_of_product(std::int32_t first) const {
    if (!few_ || schedule_.phases.empty()) return 0;
    const Phase& phase = schedule_.phases.back();
    if (phase.kind != PhaseKind::matmul || phase.products != 1 || phase.step_count > 0) return 0;
    const std::int32_t slices =
        equal_slices(graph_, first, graph::io_of(graph_.ops[static_cast<std::size_t>(phase.first_op)]).out);
    return any_quantized(first, first + slices) ? 0 : slices;
  }

  void add_slices(std::int32_t first, std::int32_t slices) {
    schedule_.phases.back().columns = width_of(first);
    for (std::int32_t i = first; i < first + slices; ++i) add_columnwise(i, 1);
  }

  /// How many ranges of the last phase's columns the op's result is, if it can be done column by column behind the
  /// products; else 0.
  std::int32_t ranges_behind_products(const backend::Op& op) const {
    if (schedule_.phases.empty()) return 0;
    // Many rows gain by it where a step makes one of two large values.
    if (!few_ && !std::holds_alternative<backend::GatedActivation>(op)) return 0;
    const Phase& phase = schedule_.phases.back();
    if (!few_ && phase.kind != PhaseKind::matmul) return 0;
    const bool products = phase.kind == PhaseKind::matmul || phase.kind == PhaseKind::moe_matmul;
    if (!products || phase.cut == StepCut::heads || phase.columns == 0 || phase.rows != rows_of(op)) return 0;
    const graph::OpIo io = graph::io_of(op);
    if (io.out == none || std::none_of(io.in.begin(), io.in.end(), [&](ValueId in) { return written_by_last(in); })) {
      return 0;
    }
    const auto* combine = std::get_if<backend::MoeCombine>(&op);
    if (combine != nullptr ? combine->used != phase.used : !is_columnwise(op)) return 0;
    const std::int32_t width = value(io.out).width;
    const std::int32_t ranges = combine == nullptr && width == phase.used * phase.columns ? phase.used : 1;
    if (width != ranges * phase.columns) return 0;
    const bool quantized = quantized_[static_cast<std::size_t>(io.out)] != 0;
    return quantized && phase.columns % 32 != 0 ? 0 : ranges;
  }

  void add_columnwise(std::int32_t index, std::int32_t ranges) {
    const ValueId out = graph::io_of(graph_.ops[static_cast<std::size_t>(index)]).out;
    Phase& phase = schedule_.phases.back();
    phase.cut = StepCut::columns;
    ++phase.op_count;
    add_step(phase, {index, none, ranges});
    writer_[static_cast<std::size_t>(out)] = static_cast<std::int32_t>(schedule_.phases.size()) - 1;
    if (quantized_[static_cast<std::size_t>(out)] != 0) add_step(phase, {none, out, ranges});
  }

  std::int32_t width_of(std::int32_t op) const {
    return value(graph::io_of(graph_.ops[static_cast<std::size_t>(op)]).out).width;
  }

  /// Into how many equal parts, at most four, all parts of the run can be divided between heads.
  static std::int32_t groups_of(const HeadRun& run) {
    for (std::int32_t groups = 4; groups > 1; --groups) {
      bool even = true;
      for (std::int32_t i = 0; i < run.parts; ++i) {
        const HeadRun::Part& part = run.part[static_cast<std::size_t>(i)];
        even = even && part.width % (std::int64_t{part.unit()} * groups) == 0;
      }
      if (even) return groups;
    }
    return 1;
  }

  void add_head_run(std::int32_t first, const HeadRun& run) {
    Phase& phase = phase_for(PhaseKind::matmul, rows_of(graph_.ops[static_cast<std::size_t>(first)]), false, first);
    phase.cut = StepCut::heads;
    phase.op_count = run.end - first;
    phase.products = run.products;
    phase.first_part = static_cast<std::int32_t>(schedule_.parts.size());
    phase.part_count = run.parts;
    phase.groups = groups_of(run);
    std::int32_t units = 0;
    for (std::int32_t i = 0; i < run.parts; ++i) {
      const HeadRun::Part& part = run.part[static_cast<std::size_t>(i)];
      const std::int32_t panels = (part.width + panel_rows - 1) / panel_rows / phase.groups;
      schedule_.parts.push_back({part.product, part.offset / panel_rows, panels, part.head, part.unit(), units});
      if (part.head > 0) units += part.width / part.unit();
    }
    schedule_.most_units = std::max(schedule_.most_units, units);
    for (std::int32_t i = first; i < run.end; ++i) {
      if (i >= first + run.products) add_step(phase, {i, none});
      const ValueId out = graph::io_of(graph_.ops[static_cast<std::size_t>(i)]).out;
      if (out != none) {
        writer_[static_cast<std::size_t>(out)] = static_cast<std::int32_t>(schedule_.phases.size()) - 1;
      }
    }
  }

  /// Of phases that are not cut into heads: a part for each product, or for each slice of one.
  void find_parts() {
    for (Phase& phase : schedule_.phases) {
      if (phase.kind != PhaseKind::matmul || phase.cut == StepCut::heads) continue;
      phase.first_part = static_cast<std::int32_t>(schedule_.parts.size());
      for (const RowStep& step : schedule_.steps_of(phase)) {
        if (step.op == none) continue;
        const auto* slice = std::get_if<backend::Slice>(&graph_.ops[static_cast<std::size_t>(step.op)]);
        if (slice != nullptr) schedule_.parts.push_back({0, slice->offset / panel_rows});
      }
      const bool sliced = static_cast<std::size_t>(phase.first_part) < schedule_.parts.size();
      for (std::int32_t i = 0; i < phase.products && !sliced; ++i) schedule_.parts.push_back({i});
      phase.part_count = static_cast<std::int32_t>(schedule_.parts.size()) - phase.first_part;
    }
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
    if (const std::int32_t ranges = ranges_behind_products(op); ranges > 0) return add_columnwise(index, ranges);
    const PhaseKind kind = kind_of(op);
    const bool join = !schedule_.phases.empty() && joins(schedule_.phases.back(), kind, op);
    Phase& phase = phase_for(kind, rows_of(op), join, index);
    ++phase.op_count;
    if (kind == PhaseKind::matmul || kind == PhaseKind::moe_matmul) count_product(phase, op);
    if (kind == PhaseKind::rows) add_step(phase, {index, none});
    const ValueId out = graph::io_of(op).out;
    if (out == none) return;
    writer_[static_cast<std::size_t>(out)] = static_cast<std::int32_t>(schedule_.phases.size()) - 1;
    if (quantized_[static_cast<std::size_t>(out)] == 0) return;
    const auto* attention = std::get_if<backend::PagedAttention>(&op);
    if (few_ && attention != nullptr &&
        graph_.states[static_cast<std::size_t>(attention->slot.group)].v_width % 32 == 0) {
      add_step(phase, {none, out});
    } else {
      add_quantize(out, kind, index);
    }
  }

  /// `op` is the last of the phase.
  void count_product(Phase& phase, const backend::Op& op) const {
    const auto* experts = std::get_if<backend::MoeMatMul>(&op);
    const std::int32_t used = experts != nullptr ? experts->used : 1;
    const std::int32_t columns = value(graph::io_of(op).out).width / used;
    const bool first = phase.products++ == 0;
    if (first) phase.used = used;
    phase.columns = first || (phase.columns == columns && phase.used == used) ? columns : 0;
  }

  void check_quantizable(ValueId id) const {
    if (value(id).width % 32 != 0) {
      core::fail(ErrorCode::unsupported_type, "a quantized matmul over {} columns, no multiple of 32", value(id).width);
    }
  }

  void add_quantize(ValueId id, PhaseKind writer, std::int32_t op) {
    check_quantizable(id);
    Phase& phase = phase_for(PhaseKind::rows, value(id).rows, writer == PhaseKind::rows, op + 1);
    add_step(phase, {none, id});
  }

  /// `phase` is the last one.
  void add_step(Phase& phase, RowStep step) {
    schedule_.steps.push_back(step);
    ++phase.step_count;
  }

  /// A phase of rows that any number of threads may do at the same time, into memory of their own: no writes to the
  /// cache or to the caller's logits, and rows that are not too long to be kept so often.
  bool may_be_own(const Phase& phase) const {
    if (!few_ || phase.kind != PhaseKind::rows) return false;
    std::int64_t width = 0;
    for (const RowStep& step : schedule_.steps_of(phase)) {
      ValueId out = step.quantize;
      if (step.op != none) {
        const backend::Op& op = graph_.ops[static_cast<std::size_t>(step.op)];
        if (std::holds_alternative<backend::KvWrite>(op)) return false;
        out = graph::io_of(op).out;
      }
      if (out == graph_.logits) return false;
      width += value(out).width;
    }
    return width <= most_own_width;
  }

  void find_own() {
    schedule_.value_own.assign(graph_.values.size(), 0);
    schedule_.quant_own.assign(graph_.values.size(), 0);
    for (Phase& phase : schedule_.phases) {
      phase.own = may_be_own(phase);
      if (!phase.own) continue;
      for (const RowStep& step : schedule_.steps_of(phase)) {
        if (step.quantize != none) schedule_.quant_own[static_cast<std::size_t>(step.quantize)] = 1;
        if (step.op == none) continue;
        const graph::OpIo io = graph::io_of(graph_.ops[static_cast<std::size_t>(step.op)]);
        schedule_.value_own[static_cast<std::size_t>(io.out)] = 1;
      }
    }
  }

  /// Phases whose threads each end with the logits of a range of columns.
  void find_logits() {
    for (Phase& phase : schedule_.phases) {
      if (phase.kind != PhaseKind::matmul || phase.products != 1 || phase.cut == StepCut::heads) continue;
      const std::size_t last = static_cast<std::size_t>(phase.first_op + phase.op_count) - 1;
      phase.logits = graph::io_of(graph_.ops[last]).out == graph_.logits;
    }
  }

  void find_hidden() {
    schedule_.hidden_phases = schedule_.phases.size();
    if (graph_.hidden != none) {
      schedule_.hidden_phases = static_cast<std::size_t>(writer_[static_cast<std::size_t>(graph_.hidden)]) + 1;
    }
  }

  std::int64_t row_limit(ValueId id) const {
    return value(id).rows == backend::Rows::tokens ? limits_.tokens : limits_.outputs;
  }

  std::uint64_t value_bytes(ValueId id, std::int64_t rows) const {
    const char* what = "bytes of activations";
    const std::int64_t bytes = core::mul_or_fail<std::int64_t>(
        core::mul_or_fail<std::int64_t>(rows, value(id).width, what, ErrorCode::out_of_memory), 4, what,
        ErrorCode::out_of_memory);
    return static_cast<std::uint64_t>((bytes + 63) / 64 * 64);
  }

  /// First and last time that each value and quantized form is needed. For own ones time counts phases: a thread does
  /// one after the other. For the rest it counts barriers that are always there, for between two of these threads may
  /// be in different phases.
  struct Lives {
    using Times = core::Vector<std::int32_t>;
    Lives(std::size_t n, const std::shared_ptr<core::Memory>& memory)
        : first(n, -1, memory), last(n, -1, memory), quant_first(n, -1, memory), quant_last(n, -1, memory) {}
    Times first, last, quant_first, quant_last;
  };
  struct Time {
    std::int32_t phase = 0, barriers = 0;
  };

  void touch_value(Lives& lives, ValueId id, Time time) const {
    if (id == none) return;
    const std::size_t i = static_cast<std::size_t>(id);
    touch(lives.first[i], lives.last[i], schedule_.value_own[i] != 0 ? time.phase : time.barriers);
  }
  void touch_quant(Lives& lives, ValueId id, Time time) const {
    if (id == none) return;
    const std::size_t i = static_cast<std::size_t>(id);
    touch(lives.quant_first[i], lives.quant_last[i], schedule_.quant_own[i] != 0 ? time.phase : time.barriers);
  }
  static void touch(std::int32_t& first, std::int32_t& last, std::int32_t time) {
    if (first < 0) first = time;
    last = std::max(last, time);
  }

  Lives find_lives() const {
    Lives lives(graph_.values.size(), memory_);
    Time time;
    for (const Phase& phase : schedule_.phases) {
      for (std::int32_t i = phase.first_op; i < phase.first_op + phase.op_count; ++i) {
        const backend::Op& op = graph_.ops[static_cast<std::size_t>(i)];
        const graph::OpIo io = graph::io_of(op);
        ValueId quantized = none;
        if (!reads_quantized(op, quantized)) quantized = none;
        touch_quant(lives, quantized, time);
        for (ValueId id : io.in) {
          if (id != quantized) touch_value(lives, id, time);
        }
        touch_value(lives, io.out, time);
      }
      for (const RowStep& step : schedule_.steps_of(phase)) {
        touch_value(lives, step.quantize, time);
        touch_quant(lives, step.quantize, time);
      }
      ++time.phase;
      if (!phase.own) ++time.barriers;
    }
    touch_value(lives, graph_.logits, time);
    touch_value(lives, graph_.hidden, time);
    return lives;
  }

  void place() {
    const std::size_t n = graph_.values.size();
    schedule_.value_at.assign(n, no_place);
    schedule_.quant_at.assign(n, no_place);
    const Lives lives = find_lives();
    for (const bool own : {false, true}) {
      core::Vector<Item> items(memory_);
      items.reserve(2 * n);
      const auto add = [&](std::uint64_t bytes, std::int32_t first, std::int32_t last, std::uint64_t& at) {
        items.push_back({bytes, first, last, &at, items.size()});
      };
      for (std::size_t i = 0; i < n; ++i) {
        const ValueId id = static_cast<ValueId>(i);
        const std::int64_t rows = own ? 1 : row_limit(id);
        if (lives.first[i] >= 0 && (schedule_.value_own[i] != 0) == own) {
          add(value_bytes(id, rows), lives.first[i], lives.last[i], schedule_.value_at[i]);
        }
        if (lives.quant_first[i] >= 0 && (schedule_.quant_own[i] != 0) == own) {
          add(quant_bytes(rows, value(id).width), lives.quant_first[i], lives.quant_last[i], schedule_.quant_at[i]);
        }
      }
      place_items(items, own ? schedule_.own_row_bytes : schedule_.bytes);
    }
  }

  /// Largest first, each at the lowest offset that is free during its life.
  void place_items(core::Vector<Item>& items, std::uint64_t& total) {
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
      total = std::max(total, core::add_or_fail(at, item.bytes, "bytes of activations", ErrorCode::out_of_memory));
    }
  }

  const backend::Graph& graph_;
  const backend::Limits& limits_;
  bool few_;
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

bool Schedule::logits_in_columns() const noexcept { return !phases.empty() && phases.back().logits; }

Schedule make_schedule(const backend::Graph& graph, const backend::Limits& limits, ScheduleKind kind,
                       const std::shared_ptr<core::Memory>& memory) {
  return Scheduler(graph, limits, kind, memory).run();
}

}  // namespace llminfer::cpu
