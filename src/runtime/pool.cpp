#include "runtime/pool.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <thread>

#include <fmt/format.h>

#include "core/fail.h"
#include "runtime/executor.h"
#include "runtime/sequence.h"

namespace llminfer::runtime {
namespace {

/// A class for each different window, that of the largest reach first.
std::vector<std::size_t> page_classes(const backend::Graph& graph) {
  const auto reach = [](const backend::StateGroup& g) {
    return g.window > 0 ? g.window : std::numeric_limits<std::int32_t>::max();
  };
  std::vector<std::int32_t> reaches;
  for (const backend::StateGroup& g : graph.states) reaches.push_back(reach(g));
  std::sort(reaches.begin(), reaches.end(), std::greater<>());
  reaches.erase(std::unique(reaches.begin(), reaches.end()), reaches.end());
  if (reaches.size() > PageCounts::classes) {
    core::fail(ErrorCode::unsupported_architecture, "layers have {} different windows, at most {} are served",
               reaches.size(), PageCounts::classes);
  }
  std::vector<std::size_t> out;
  for (const backend::StateGroup& g : graph.states) {
    const auto at = std::find(reaches.begin(), reaches.end(), reach(g));
    out.push_back(static_cast<std::size_t>(at - reaches.begin()));
  }
  return out;
}

/// The smallest `count(group)` of each class.
template <class Count>
PageCounts by_class(const std::vector<std::size_t>& classes, Count count) {
  PageCounts out;
  std::array<bool, PageCounts::classes> seen{};
  for (std::size_t g = 0; g < classes.size(); ++g) {
    const std::size_t c = classes[g];
    out[c] = seen[c] ? std::min<std::int64_t>(out[c], count(g)) : count(g);
    seen[c] = true;
  }
  return out;
}

}  // namespace

Pool::Pool(PoolOptions options) : options_(std::move(options)) {
  for (const std::int32_t pages : options_.pages) {
    if (pages <= 0) core::fail(ErrorCode::invalid_argument, "a pool of {} pages", pages);
    pools_.emplace_back(pages, options_.host);
  }
  classes_ = page_classes(*options_.graph);
  total_ = by_class(classes_, [this](std::size_t g) { return pools_[g].size(); });
  if (options_.prefix_cache) {
    prefix_cache_ = std::make_unique<PrefixCache>(*options_.prefix_cache, *options_.graph, options_.page_size, pools_,
                                                  options_.host);
  }
  storage_ = options_.program->make_kv(options_.format, options_.pages).value();
  workspace_ = options_.program->workspace().value();
  executor_ = std::make_unique<Executor>(*options_.graph, options_.limits);
}

Pool::~Pool() = default;

PageCounts Pool::free_pages() const noexcept {
  return by_class(classes_, [this](std::size_t g) { return pools_[g].free(); });
}

PageCounts Pool::cached_pages() const noexcept {
  return by_class(classes_, [this](std::size_t g) { return pools_[g].cached(); });
}

std::string Pool::invariants(std::span<const Sequence* const> sequences) const {
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    std::vector<std::int32_t> uses(static_cast<std::size_t>(pools_[g].size()), 0);
    for (const Sequence* sequence : sequences) {
      for (const std::int32_t page : sequence->table(g)) {
        if (page >= 0) ++uses[static_cast<std::size_t>(page)];
      }
    }
    std::string wrong = pools_[g].invariants(uses);
    if (!wrong.empty()) return fmt::format("group {}: {}", g, wrong);
  }
  for (const Sequence* sequence : sequences) {
    std::string wrong = sequence->invariants();
    if (!wrong.empty()) return wrong;
  }
  return prefix_cache_ ? prefix_cache_->invariants() : std::string();
}

void Pool::give_way() const noexcept {
  // Bounded: a waiter that gets no processor must not stop the batch.
  for (int i = 0; i < 1000 && waiting_.load(std::memory_order_relaxed) > 0; ++i) std::this_thread::yield();
}

}  // namespace llminfer::runtime
