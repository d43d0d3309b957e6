#include <algorithm>

#include "runtime/sampling/links.h"

namespace llminfer::runtime {
namespace {

class NoRepeatNgramLink final : public Link {
 public:
  explicit NoRepeatNgramLink(const NoRepeatNgram& spec)
      : prefix_(static_cast<std::size_t>(spec.size) - 1), window_(spec.window) {}

  void apply(Candidates& candidates, const Step& step) override {
    const auto tokens = step.window(window_);
    if (tokens.size() <= prefix_) return;
    const auto tail = tokens.last(prefix_);
    for (std::size_t i = 0; i + prefix_ < tokens.size(); ++i) {
      if (std::equal(tail.begin(), tail.end(), tokens.begin() + static_cast<std::ptrdiff_t>(i))) {
        candidates.remove(tokens[i + prefix_]);
      }
    }
  }
  std::unique_ptr<Link> clone() const override { return std::make_unique<NoRepeatNgramLink>(*this); }

 private:
  std::size_t prefix_;  // tokens that must match before the one that is forbidden
  int window_;
};

}  // namespace

LinkPointer make_link(const NoRepeatNgram& spec, const LinkContext&) {
  if (spec.size == 0 || spec.window == 0) return nullptr;
  return std::make_unique<NoRepeatNgramLink>(spec);
}

}  // namespace llminfer::runtime
