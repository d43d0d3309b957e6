// Memory stands still while threads wait for each other and while rows go through norms and attention, some hundred
// times a token. So whoever is through with its part of a product asks for the weights that it will read next.
#include <algorithm>

#include "device/cpu/executor.h"
#include "device/cpu/list_shares.h"

namespace llminfer::cpu {
namespace {

constexpr std::int64_t most_asked = 16 * 1024;  // bytes, of all panels together

}  // namespace

/// The first panel that a thread reads in a phase of products; no weight if it reads none, or if that hangs on routes.
Executor::WeightPlace Executor::first_weights(const Phase& phase, int thread, int threads) const noexcept {
  if (phase.kind != PhaseKind::matmul) return {};
  const std::span<const ProductPart> parts = schedule_.parts_of(phase);
  const bool in_columns = phase.cut == StepCut::columns || (phase.logits && (bests_ || tops_));
  if (in_columns) {
    const core::Share share = column_share(phase, thread, threads);
    if (share.begin >= share.end) return {};
    const ProductPart& part = parts.front();
    return {&program_.weight(product_at(phase, part.product).weight), part.first_panel + share.begin / panel_rows};
  }
  WeightPlace place;
  const auto take_first = [&](std::int32_t product, std::int64_t panel) {
    if (place.weight == nullptr) place = {&program_.weight(product_at(phase, product).weight), panel};
  };
  const auto own_share = [&](std::int64_t lists, const auto& length_of) {
    return core::share_of(length_of_all(lists, length_of), thread, threads);
  };
  if (phase.cut == StepCut::none) {  // few rows: once through the panels
    const auto panels_of = [&](std::int64_t i) {
      return weight_of(product_at(phase, static_cast<std::int32_t>(i))).shape.panels;
    };
    each_list(
        phase.products, panels_of, own_share(phase.products, panels_of),
        [&](std::int64_t i, std::int64_t first, std::int64_t) { take_first(static_cast<std::int32_t>(i), first); });
    return place;
  }
  const HeadLists lists{parts, phase.groups};
  const auto panels_of = [&](std::int64_t i) { return std::int64_t{lists.part(i).panels}; };
  each_list(lists.count(), panels_of, own_share(lists.count(), panels_of),
            [&](std::int64_t i, std::int64_t first, std::int64_t) {
              take_first(lists.part(i).product, lists.part(i).first_panel + lists.first_panel(i) + first);
            });
  return place;
}

/// For the second level of the cache, of four panels side by side as they will be read.
void Executor::ask_for_weights(const WeightPlace& place) const noexcept {
  if (place.weight == nullptr) return;
  const PackedShape& shape = place.weight->shape;
  const std::int64_t panels = std::min<std::int64_t>(gemv_panels, shape.panels - place.panel);
  const std::int64_t bytes = std::min(shape.panel_bytes, most_asked / gemv_panels);
  const std::byte* first = place.weight->panel(program_.arena(), 0, place.panel);
  for (std::int64_t at = 0; at < bytes; at += static_cast<std::int64_t>(line_bytes)) {
    for (std::int64_t i = 0; i < panels; ++i) __builtin_prefetch(first + i * shape.panel_bytes + at, 0, 2);
  }
}

/// Behind phase `p`: the phase of products after it, of the next step behind the last one.
void Executor::ask_ahead(std::size_t p, int thread, int threads) const noexcept {
  const core::Vector<Phase>& phases = schedule_.phases;
  if (phases[p].kind == PhaseKind::rows || phases[p].kind == PhaseKind::attention) return;
  for (std::size_t i = 1; i < phases.size(); ++i) {
    const Phase& next = phases[(p + i) % phases.size()];
    if (next.kind == PhaseKind::moe_matmul) return;
    if (next.kind == PhaseKind::matmul) return ask_for_weights(first_weights(next, thread, threads));
  }
}

}  // namespace llminfer::cpu
