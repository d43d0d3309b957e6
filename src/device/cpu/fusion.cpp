#include "device/cpu/fusion.h"

#include <cstddef>

#include "device/cpu/panel_layout.h"

namespace llminfer::cpu {
namespace {

using backend::none;
using backend::ValueId;

class HeadRunFinder {
 public:
  HeadRunFinder(const backend::Graph& graph, std::int32_t first) noexcept : graph_(graph), first_(first) {}

  HeadRun find() noexcept {
    std::int32_t i = first_;
    for (; i < count() && run_.products < HeadRun::most; ++i) {
      const auto* product = std::get_if<backend::MatMul>(&op(i));
      if (product == nullptr || (run_.products > 0 && product->in != in_)) break;
      in_ = product->in;
      tail_[static_cast<std::size_t>(run_.products++)] = product->out;
    }
    for (; i < count(); ++i) {
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

  /// A step over heads of `head` values, from the newest value of one of the products.
  bool step(ValueId in, ValueId out, std::int32_t head) noexcept {
    for (std::int32_t p = 0; p < run_.products; ++p) {
      const std::size_t i = static_cast<std::size_t>(p);
      if (tail_[i] != in) continue;
      const std::int32_t width = graph_.values[static_cast<std::size_t>(in)].width;
      if (head <= 0 || head % panel_rows != 0 || width % head != 0) return false;
      if (run_.head[i] != 0 && run_.head[i] != head) return false;
      run_.head[i] = head;
      tail_[i] = out;
      return true;
    }
    return false;
  }

  void set_order(ValueId k, ValueId v) noexcept {
    std::size_t at = 0;
    const auto take = [&](bool keys, bool values) {
      for (std::int32_t p = 0; p < run_.products; ++p) {
        const ValueId tail = tail_[static_cast<std::size_t>(p)];
        if ((tail == k) == keys && (tail != k && tail == v) == values) run_.order[at++] = p;
      }
    };
    take(true, false);
    take(false, false);
    take(false, true);
  }

  const backend::Graph& graph_;
  std::int32_t first_;
  ValueId in_ = none;
  std::array<ValueId, HeadRun::most> tail_{};
  HeadRun run_{};
};

}  // namespace

HeadRun find_head_run(const backend::Graph& graph, std::int32_t first) noexcept {
  return HeadRunFinder(graph, first).find();
}

bool is_columnwise(const backend::Op& op) noexcept {
  return std::holds_alternative<backend::GatedActivation>(op) || std::holds_alternative<backend::Add>(op) ||
         std::holds_alternative<backend::Scale>(op) || std::holds_alternative<backend::Softcap>(op);
}

}  // namespace llminfer::cpu
