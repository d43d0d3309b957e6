// Requests that wait and the prefix cache.
#include <algorithm>

#include "runtime/batch_engine.h"

namespace llminfer::runtime {

/// Those next in line need no room for the part of their histories that others have in use. They take nothing yet:
/// what waits must not keep pages from those that run.
void BatchEngine::expect_prefixes() noexcept {
  if (pool_->prefix_cache() == nullptr) return;
  std::vector<std::int32_t>& waiting = schedule_.order;  // scratch of the plan that follows, of sufficient capacity
  waiting.clear();
  std::int32_t places = limits_.max_sequences;
  for (std::size_t i = 0; i < views_.size(); ++i) {
    const ScheduledRequest& view = views_[i];
    places -= view.running ? 1 : 0;
    if (!view.running && view.ready && view.computed == 0) waiting.push_back(static_cast<std::int32_t>(i));
  }
  const auto next = std::min(waiting.size(), static_cast<std::size_t>(std::max(0, places)));
  const auto before = [this](std::int32_t a, std::int32_t b) {
    const ScheduledRequest& x = views_[static_cast<std::size_t>(a)];
    const ScheduledRequest& y = views_[static_cast<std::size_t>(b)];
    return x.priority != y.priority ? x.priority > y.priority : x.arrival < y.arrival;
  };
  std::partial_sort(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(next), waiting.end(), before);
  for (std::size_t k = 0; k < next; ++k) {
    const auto i = static_cast<std::size_t>(waiting[k]);
    views_[i].missing -= live_[i]->sequence.prefix_in_use();
  }
}

/// One that is admitted takes what the cache has of its history.
void BatchEngine::adopt_prefix(BatchRequest& request) noexcept {
  const std::int32_t reused = request.sequence.adopt_prefix();
  if (reused == 0) return;
  request.charged = std::max(request.charged, reused);
  if (request.started) return;  // computed before, and lost
  request.outcome.reused_tokens = reused;
  ++counts_.prefix_hits;
  counts_.reused_tokens += static_cast<std::uint64_t>(reused);
}

/// (pool's mutex)
void BatchEngine::count_pages(BatchStats& stats) const noexcept {
  stats.pages_cached = static_cast<int>(pool_->cached_pages()[0]);
  stats.pages_used = total_pages() - static_cast<int>(pool_->free_pages()[0]) + stats.pages_cached;
}

}  // namespace llminfer::runtime
