#include "device/cpu/fusion.h"

#include <cstddef>
#include <numeric>

#include "device/cpu/panel_layout.h"

namespace llminfer::cpu {
namespace {

using backend::none;
using backend::ValueId;

class HeadRunFinder {
 public:
  HeadRunFinder(const backend::Graph& graph, std::int32_t first) noexcept : graph_(graph), first_(first) {}

  HeadRun find() noexcept {
    for (std::int32_t i = take_parts(); i < count() && run_.parts > 0; ++i) {
      if (const auto* norm = std::get_if<backend::RmsNorm>(&op(i))) {
        if (!step(norm->in, norm->out, norm->group)) return {};
      } else if (const auto* rope = std::get_if<backend::Rope>(&op(i))) {
        if (!step(rope->in, rope->out, rope->head_width)) return {};
      } else {
        const auto* write = std::get_if<backend::KvWrite>(&op(i));
        if (write == nullptr) return {};
        const backend::StateGroup& state = graph_.states[static_cast<std::size_t>(write->slot.group)];
        if (!step(write->k, write->k, state.k_width)) return {};
        if (write->v != none && !step(write->v, write->v, state.v_width)) return {};
        set_order(write->k, write->v);
        run_.end = i + 1;
        return run_;
      }
    }
    return {};
  }

 private:
  std::int32_t count() const noexcept { return static_cast<std::int32_t>(graph_.ops.size()); }
  const backend::Op& op(std::int32_t i) const noexcept { return graph_.ops[static_cast<std::size_t>(i)]; }
  std::int32_t width(ValueId id) const noexcept { return graph_.values[static_cast<std::size_t>(id)].width; }

  void add_part(std::int32_t product, std::int32_t offset, std::int32_t head, ValueId out) noexcept {
    tail_[static_cast<std::size_t>(run_.parts)] = out;
    run_.part[static_cast<std::size_t>(run_.parts++)] = {product, offset, width(out), head};
  }

  /// Takes in products, or one and its slices; no parts where these do not make up the whole of it. Returns the op
  /// behind them.
  std::int32_t take_parts() noexcept {
    std::int32_t i = first_;
    ValueId in = none;
    for (; i < count() && run_.products < HeadRun::most; ++i) {
      const auto* product = std::get_if<backend::MatMul>(&op(i));
      if (product == nullptr || (run_.products > 0 && product->in != in)) break;
      in = product->in;
      add_part(run_.products++, 0, 0, product->out);
    }
    if (run_.products != 1 || i == count() || !std::holds_alternative<backend::Slice>(op(i))) return i;
    run_.parts = 0;
    const ValueId whole = tail_[0];
    std::int32_t at = 0;
    for (; i < count() && run_.parts < HeadRun::most; ++i) {
      const auto* slice = std::get_if<backend::Slice>(&op(i));
      if (slice == nullptr) break;
      if (slice->in != whole || slice->offset != at || width(slice->out) % panel_rows != 0) break;
      add_part(0, at, panel_rows, slice->out);
      at += width(slice->out);
    }
    if (at != width(whole)) run_.parts = 0;
    return i;
  }

  /// A step over heads of `head` values, from the newest value of one of the parts.
  bool step(ValueId in, ValueId out, std::int32_t head) noexcept {
    for (std::int32_t p = 0; p < run_.parts; ++p) {
      const std::size_t i = static_cast<std::size_t>(p);
      if (tail_[i] != in) continue;
      if (head <= 0 || width(in) % head != 0) return false;
      if (stepped_[i] && run_.part[i].head != head) return false;
      run_.part[i].head = head;
      stepped_[i] = true;
      tail_[i] = out;
      return true;
    }
    return false;
  }

  void set_order(ValueId k, ValueId v) noexcept {
    const std::array<HeadRun::Part, HeadRun::most> parts = run_.part;
    std::size_t at = 0;
    const auto take = [&](bool keys, bool values) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(run_.parts); ++i) {
        if ((tail_[i] == k) == keys && (tail_[i] != k && tail_[i] == v) == values) run_.part[at++] = parts[i];
      }
    };
    take(true, false);
    take(false, false);
    take(false, true);
  }

  const backend::Graph& graph_;
  std::int32_t first_;
  std::array<ValueId, HeadRun::most> tail_{};
  std::array<bool, HeadRun::most> stepped_{};
  HeadRun run_{};
};

}  // namespace

std::int32_t HeadRun::Part::unit() const noexcept {
  if (head <= 0) return panel_rows;
  const std::int64_t both = std::lcm(std::int64_t{head}, std::int64_t{panel_rows});
  return width % both == 0 ? static_cast<std::int32_t>(both) : width;
}

HeadRun find_head_run(const backend::Graph& graph, std::int32_t first) noexcept {
  return HeadRunFinder(graph, first).find();
}

std::int32_t equal_slices(const backend::Graph& graph, std::int32_t first, ValueId of) noexcept {
  const auto width = [&](ValueId id) { return graph.values[static_cast<std::size_t>(id)].width; };
  std::int32_t slices = 0, each = 0;
  for (std::size_t i = static_cast<std::size_t>(first); i < graph.ops.size(); ++i) {
    const auto* slice = std::get_if<backend::Slice>(&graph.ops[i]);
    if (slice == nullptr || slice->in != of) break;
    if (slices == 0) each = width(slice->out);
    if (width(slice->out) != each || each % panel_rows != 0 || slice->offset != slices * each) return 0;
    ++slices;
  }
  return slices * each == width(of) ? slices : 0;
}

bool is_columnwise(const backend::Op& op) noexcept {
  return std::holds_alternative<backend::GatedActivation>(op) || std::holds_alternative<backend::Add>(op) ||
         std::holds_alternative<backend::Scale>(op) || std::holds_alternative<backend::Softcap>(op);
}

}  // namespace llminfer::cpu
