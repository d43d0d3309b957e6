#include "runtime/sampling/links.h"

namespace llminfer::runtime {
namespace {

class GreedyLink final : public Link {
 public:
  void apply(Candidates& candidates, const Step&) override { candidates.keep_best(); }
  int keeps_top() const noexcept override { return 1; }
  std::unique_ptr<Link> clone() const override { return std::make_unique<GreedyLink>(*this); }
};

}  // namespace

LinkPointer make_link(const Greedy&, const LinkContext&) { return std::make_unique<GreedyLink>(); }

}  // namespace llminfer::runtime
