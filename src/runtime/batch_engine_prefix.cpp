// Requests that wait and the prefix cache.
#include <algorithm>

#include "runtime/batch_engine.h"

namespace llminfer::runtime {

/// Those next in line take what the cache has of their histories, so that the plan sees what is left to compute. They
/// hold these pages while they wait, and lose them first.
void BatchEngine::adopt_prefixes() noexcept {
  if (pool_->prefix_cache() == nullptr) return;
  std::vector<std::int32_t>& waiting = schedule_.order;  // scratch of the plan that follows, of sufficient capacity
  waiting.clear();
  std::int32_t places = limits_.max_sequences;
  for (std::size_t i = 0; i < live_.size(); ++i) {
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
    BatchRequest& request = *live_[i];
    const std::int32_t reused = request.sequence.adopt_prefix();
    if (reused == 0) continue;
    if (!request.started) {
      counts_.prefix_hits += request.outcome.reused_tokens == 0 ? 1 : 0;
      counts_.reused_tokens += static_cast<std::uint64_t>(std::max(0, reused - request.outcome.reused_tokens));
      request.outcome.reused_tokens = std::max(reused, request.outcome.reused_tokens);
    }
    request.charged = std::max(request.charged, reused);
    ScheduledRequest& view = request.view;
    view.computed = reused;
    view.missing = request.sequence.missing_pages(view.tokens);
    view.pages = request.sequence.pages();
    views_[i] = view;
  }
}

/// (pool's mutex)
void BatchEngine::count_pages(BatchStats& stats) const noexcept {
  stats.pages_cached = static_cast<int>(pool_->cached_pages()[0]);
  stats.pages_used = total_pages() - static_cast<int>(pool_->free_pages()[0]) + stats.pages_cached;
}

}  // namespace llminfer::runtime
