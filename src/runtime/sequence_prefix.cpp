// A sequence and what outlives it: the prefix cache, and saved pages.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/sequence.h"

namespace llminfer::runtime {

void Sequence::set_salt(std::uint64_t salt) noexcept {
  if (salt != salt_) keys_.clear();
  salt_ = salt;
}

/// Keys of the first `pages` whole pages.
void Sequence::extend_keys(std::int32_t pages) noexcept {
  const PrefixCache& cache = *pool_->prefix_cache();
  const auto page_size = static_cast<std::size_t>(pool_->page_size());
  while (static_cast<std::int32_t>(keys_.size()) < pages) {
    const PrefixCache::Key before = keys_.empty() ? cache.root(salt_) : keys_.back();
    keys_.push_back(cache.next(before, tokens().subspan(keys_.size() * page_size, page_size)));  // within its capacity
  }
}

/// Whole pages [first, end) hold what they will hold.
void Sequence::remember_pages(std::int32_t first, std::int32_t end) noexcept {
  PrefixCache* const cache = pool_->prefix_cache();
  if (cache == nullptr || first == end) return;
  extend_keys(end);
  const auto page_size = static_cast<std::size_t>(pool_->page_size());
  for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(end); ++i) {
    cache->insert(keys_[i], tokens().subspan(i * page_size, page_size), [&](std::size_t g) { return tables_[g][i]; });
  }
}

/// Fills the tables with the pages of the longest beginning that the cache has, without taking them; returns how many
/// entries they have then. Nothing if something is computed already.
std::int32_t Sequence::find_prefix() noexcept {
  PrefixCache* const cache = pool_->prefix_cache();
  if (cache == nullptr || paging_ != Paging::at_step || size() == 0) return 0;
  trim();
  if (computed_ > 0 || pages().any()) return 0;
  const std::int32_t page_size = pool_->page_size();
  const std::int32_t most = (size() - 1) / page_size;
  // given_back_ counts the entries up to the last hole of each group.
  std::int32_t hit = 0;
  for (std::int32_t i = 0; i < most; ++i) {
    extend_keys(i + 1);
    const auto first = static_cast<std::size_t>(i) * static_cast<std::size_t>(page_size);
    const std::int32_t node =
        cache->find(keys_[static_cast<std::size_t>(i)], tokens().subspan(first, static_cast<std::size_t>(page_size)));
    if (node < 0 && cache->any_keeps_all()) break;
    bool usable = true;
    for (std::size_t g = 0; g < tables_.size(); ++g) {
      const std::int32_t page = node < 0 ? -1 : cache->page(node, g);
      tables_[g].push_back(page);
      if (page < 0) given_back_[g] = i + 1;
      usable = usable && given_back_[g] <= first_seen(g, std::int64_t{i + 1} * page_size);
    }
    if (usable) hit = i + 1;
  }
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    tables_[g].resize(static_cast<std::size_t>(hit));
    given_back_[g] = first_seen(g, std::int64_t{hit} * page_size);
    std::fill_n(tables_[g].begin(), given_back_[g], -1);
  }
  return hit;
}

std::int32_t Sequence::adopt_prefix() noexcept {
  const std::int32_t hit = find_prefix();
  if (hit == 0) return 0;
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    for (const std::int32_t page : tables_[g]) {
      if (page >= 0) pool_->pages(g).share(page);
    }
  }
  computed_ = hit * pool_->page_size();
  pool_->prefix_cache()->count_hit(computed_);
  return computed_;
}

PageCounts Sequence::prefix_in_use() noexcept {
  PageCounts out;
  if (find_prefix() == 0) return out;
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    std::int64_t used = 0;
    for (const std::int32_t page : tables_[g]) used += page >= 0 && pool_->pages(g).references(page) > 0 ? 1 : 0;
    std::int64_t& least = out[pool_->class_of(g)];
    least = least > 0 ? std::min(least, used) : used;
    tables_[g].clear();
    given_back_[g] = 0;
  }
  return out;
}

Shortage Sequence::restore(std::int32_t computed, std::span<const std::int32_t> given_back) noexcept {
  const std::int32_t before = computed_;
  computed_ = computed;
  const std::int32_t tokens = paging_ == Paging::at_append ? size() : computed;
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    const std::int64_t needed = target(g, tokens) - given_back[g];
    const std::int64_t room = std::int64_t{pool_->pages(g).free()} + static_cast<std::int64_t>(tables_[g].size());
    if (needed <= room) continue;
    computed_ = before;
    return {Shortage::Kind::pages, needed, room};
  }
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    if (window(g) > 0) {
      give_back(g);
      begin_behind(g, given_back[g]);
    }
    extend(g, target(g, tokens));
  }
  return {};
}

std::string Sequence::invariants() const {
  if (computed_ < 0 || computed_ > size() || size() > context_) {
    return fmt::format("{} of {} tokens computed, context {}", computed_, size(), context_);
  }
  if (paging_ == Paging::at_append && window_is_gone()) return "a window is gone";
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    const auto held = static_cast<std::int32_t>(tables_[g].size());
    if (given_back_[g] < 0 || given_back_[g] > held) {
      return fmt::format("group {}: {} of {} pages given back", g, given_back_[g], held);
    }
    for (std::int32_t i = 0; i < held; ++i) {
      if ((tables_[g][static_cast<std::size_t>(i)] < 0) != (i < given_back_[g])) {
        return fmt::format("group {}: entry {} of {}, {} given back", g, i, held, given_back_[g]);
      }
    }
    if (std::int64_t{held} * pool_->page_size() < computed_) {
      return fmt::format("group {}: {} pages for {} computed tokens", g, held, computed_);
    }
    if (paging_ == Paging::at_append && window(g) == 0 && held != pages_for(size())) {
      return fmt::format("group {}: {} pages for {} tokens", g, held, size());
    }
    if (window(g) > 0 && held - given_back_[g] > window_pages(window(g), pool_->page_size(), pool_->limits().tokens)) {
      return fmt::format("group {}: {} pages held for a window of {}", g, held - given_back_[g], window(g));
    }
  }
  return {};
}

}  // namespace llminfer::runtime
