#include "runtime/sampling/links.h"

namespace llminfer::runtime {
namespace {

class TopKLink final : public Link {
 public:
  explicit TopKLink(int k) : k_(static_cast<std::size_t>(k)) {}
  void apply(Candidates& candidates, const Step&) override { candidates.keep_top(k_); }
  int keeps_top() const noexcept override { return static_cast<int>(k_); }
  std::unique_ptr<Link> clone() const override { return std::make_unique<TopKLink>(*this); }

 private:
  std::size_t k_;
};

}  // namespace

LinkPointer make_link(const TopK& spec, const LinkContext&) {
  return spec.k == 0 ? nullptr : std::make_unique<TopKLink>(spec.k);
}

}  // namespace llminfer::runtime
