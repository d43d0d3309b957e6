#include <algorithm>

#include "runtime/sampling/entropy.h"
#include "runtime/sampling/links.h"

namespace llminfer::runtime {
namespace {

// The candidates in order of |-ln p - H|, then id, ordered only as far as the mass asks for.
class TypicalOrder {
 public:
  explicit TypicalOrder(Candidates& candidates) noexcept
      : entropy_(entropy(candidates)),
        list_(candidates.list()),
        scale_(candidates.scale()),
        distance_(candidates.scores()),
        order_(candidates.order()) {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const double d = -log_p(static_cast<std::uint32_t>(i)) - entropy_.nats;
      distance_[i] = d < 0 ? -d : d;
    }
  }

  // The first candidates whose p sum to at least `mass`. Quickselect by mass: splits around a pivot and goes on in the
  // part in which the sum passes `mass`. The splits are written out: the sums are the same with every standard library.
  std::span<std::uint32_t> with_mass(double mass) noexcept {
    std::size_t first = 0;
    std::size_t end = order_.size();
    while (end - first > 64) {
      double closer = 0;
      const std::size_t split = partition(first, end, closer);
      if (closer >= mass) {
        end = split;
        continue;
      }
      mass -= closer + exp64(log_p(order_[split]));
      first = split + 1;
      if (mass <= 0) return order_.first(first);
    }
    const auto rest = order_.subspan(first, end - first);
    std::sort(rest.begin(), rest.end(), [this](std::uint32_t a, std::uint32_t b) { return before(a, b); });
    for (; first < end && mass > 0; ++first) mass -= exp64(log_p(order_[first]));
    return order_.first(first);
  }

 private:
  double log_p(std::uint32_t i) const noexcept {
    return static_cast<double>(list_[i].logit) * scale_ - entropy_.normalizer;
  }
  bool before(std::uint32_t a, std::uint32_t b) const noexcept {
    return distance_[a] < distance_[b] || (distance_[a] == distance_[b] && a < b);
  }

  // Moves what comes before the middle one of three to the front of [first, end) and sums its p into `closer`. Returns
  // the pivot's place.
  std::size_t partition(std::size_t first, std::size_t end, double& closer) noexcept {
    auto& low = order_[first];
    auto& middle = order_[first + (end - first) / 2];
    auto& pivot = order_[end - 1];
    if (before(middle, low)) std::swap(middle, low);
    if (before(pivot, low)) std::swap(pivot, low);
    if (before(middle, pivot)) std::swap(middle, pivot);
    std::size_t split = first;
    for (std::size_t i = first; i + 1 < end; ++i) {
      if (!before(order_[i], pivot)) continue;
      closer += exp64(log_p(order_[i]));
      std::swap(order_[i], order_[split++]);
    }
    std::swap(order_[split], pivot);
    return split;
  }

  Entropy entropy_;
  std::span<const Candidate> list_;
  double scale_;
  std::span<double> distance_;
  std::span<std::uint32_t> order_;
};

class TypicalPLink final : public Link {
 public:
  explicit TypicalPLink(float p) : p_(p) {}
  void apply(Candidates& candidates, const Step&) override {
    TypicalOrder order(candidates);
    candidates.keep_entries(order.with_mass(p_));
  }
  std::unique_ptr<Link> clone() const override { return std::make_unique<TypicalPLink>(*this); }

 private:
  double p_;
};

}  // namespace

LinkPointer make_link(const TypicalP& spec, const LinkContext&) {
  if (spec.p >= 1) return nullptr;
  return std::make_unique<TypicalPLink>(std::max(spec.p, 1e-30f));  // 0: the first alone, as for any tiny mass
}

}  // namespace llminfer::runtime
