#include <algorithm>

#include "runtime/sampling/entropy.h"
#include "runtime/sampling/links.h"

namespace llminfer::runtime {
namespace {

class TypicalPLink final : public Link {
 public:
  explicit TypicalPLink(float p) : p_(p) {}

  void apply(Candidates& candidates, const Step&) override {
    const double normalizer = candidates.log_sum_exp();
    const double h = entropy(candidates);
    const auto list = candidates.list();
    const auto surprise = [&](std::size_t i) {
      return normalizer - static_cast<double>(list[i].logit) * candidates.scale();
    };
    const auto distance = candidates.scores();
    for (std::size_t i = 0; i < list.size(); ++i) {
      const double d = surprise(i) - h;
      distance[i] = d < 0 ? -d : d;
    }
    const auto closer = [&](std::uint32_t a, std::uint32_t b) {
      return distance[a] < distance[b] || (distance[a] == distance[b] && a < b);
    };
    // Orders only as much of the list as the mass needs.
    const auto order = candidates.order();
    double mass = 0;
    std::size_t done = 0;
    for (std::size_t sorted = 0; sorted < order.size();) {
      const std::size_t end = std::min(order.size(), sorted == 0 ? std::size_t{256} : sorted * 8);
      const auto from = order.begin() + static_cast<std::ptrdiff_t>(sorted);
      const auto to = order.begin() + static_cast<std::ptrdiff_t>(end);
      if (to != order.end()) std::nth_element(from, to, order.end(), closer);
      std::sort(from, to, closer);
      while (done < end) {
        mass += exp64(-surprise(order[done++]));
        if (mass >= p_) return candidates.keep_entries(order.first(done));
      }
      sorted = end;
    }
  }
  std::unique_ptr<Link> clone() const override { return std::make_unique<TypicalPLink>(*this); }

 private:
  double p_;
};

}  // namespace

LinkPointer make_link(const TypicalP& spec, const LinkContext&) {
  return spec.p >= 1 ? nullptr : std::make_unique<TypicalPLink>(spec.p);
}

}  // namespace llminfer::runtime
