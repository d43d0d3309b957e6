#include "runtime/sequence.h"

#include <algorithm>

namespace llminfer::runtime {

Sequence::Sequence(std::shared_ptr<Pool> pool, std::int32_t context, Paging paging)
    : pool_(std::move(pool)),
      context_(context),
      paging_(paging),
      tokens_(pool_->host()),
      tables_(pool_->groups(), core::Vector<std::int32_t>(pool_->host())) {
  tokens_.reserve(static_cast<std::size_t>(context));
  for (core::Vector<std::int32_t>& table : tables_) table.reserve(static_cast<std::size_t>(pages_for(context)));
}

Sequence::~Sequence() {
  rewind(0);
  trim();
}

std::int32_t Sequence::pages_for(std::int64_t tokens) const noexcept {
  const std::int64_t size = pool_->page_size();
  return static_cast<std::int32_t>((tokens + size - 1) / size);
}

/// Replaces in every group the last page by a copy if others refer to it too, provided that `further_pages` more are
/// then left; otherwise changes nothing.
Shortage Sequence::own_last_pages(std::int32_t further_pages) noexcept {
  const auto shared = [&](std::size_t g) {
    return !tables_[g].empty() && pool_->pages(g).references(tables_[g].back()) > 1;
  };
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    const std::int64_t needed = std::int64_t{further_pages} + (shared(g) ? 1 : 0);
    if (needed > pool_->pages(g).free()) return {Shortage::Kind::pages, needed, pool_->pages(g).free()};
  }
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    if (!shared(g)) continue;
    std::int32_t& last = tables_[g].back();
    const std::int32_t copy = pool_->pages(g).take();
    if (!pool_->storage().copy_page(static_cast<std::int32_t>(g), last, copy).ok()) {
      pool_->pages(g).release(copy);
      return {Shortage::Kind::device, 0, 0};
    }
    pool_->pages(g).release(last);
    last = copy;
  }
  return {};
}

Shortage Sequence::append(std::span<const Token> tokens) noexcept {
  const std::int64_t end = static_cast<std::int64_t>(tokens.size()) + size();
  if (end > context_) return {Shortage::Kind::context, end, context_};
  if (tokens.empty()) return {};
  if (paging_ == Paging::at_step) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    return {};
  }
  const std::int32_t wanted = pages_for(end);
  const std::int32_t fresh = wanted - pages_for(size());
  const bool inside_page = size() % pool_->page_size() != 0;
  if (inside_page) {
    const Shortage shortage = own_last_pages(fresh);
    if (shortage.kind != Shortage::Kind::none) return shortage;
  } else {
    for (std::size_t g = 0; g < tables_.size(); ++g) {
      if (fresh > pool_->pages(g).free()) return {Shortage::Kind::pages, fresh, pool_->pages(g).free()};
    }
  }
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    while (static_cast<std::int32_t>(tables_[g].size()) < wanted) tables_[g].push_back(pool_->pages(g).take());
  }
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());  // within the reserved capacity
  return {};
}

/// Pages of a table from index `first` on that others refer to as well.
std::int32_t Sequence::shared_pages(std::size_t group, std::size_t first) const noexcept {
  std::int32_t n = 0;
  for (std::size_t i = first; i < tables_[group].size(); ++i) {
    n += pool_->pages(group).references(tables_[group][i]) > 1 ? 1 : 0;
  }
  return n;
}

/// Replaces those by copies, for which there are free pages. False when the device fails; what was copied stays.
bool Sequence::own_pages(std::size_t group, std::size_t first) noexcept {
  PagePool& pages = pool_->pages(group);
  for (std::size_t i = first; i < tables_[group].size(); ++i) {
    std::int32_t& page = tables_[group][i];
    if (pages.references(page) <= 1) continue;
    const std::int32_t copy = pages.take();
    if (!pool_->storage().copy_page(static_cast<std::int32_t>(group), page, copy).ok()) {
      pages.release(copy);
      return false;
    }
    pages.release(page);
    page = copy;
  }
  return true;
}

PageCounts Sequence::missing_pages(std::int32_t tokens) noexcept {
  trim();
  const std::int32_t wanted = pages_for(tokens);
  const auto first = static_cast<std::size_t>(computed_ / pool_->page_size());
  PageCounts missing;
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    const auto held = static_cast<std::int32_t>(tables_[g].size());
    std::int64_t& most = missing[pool_->class_of(g)];
    most = std::max<std::int64_t>(most, std::max(0, wanted - held) + shared_pages(g, first));
  }
  return missing;
}

PageCounts Sequence::pages() const noexcept {
  PageCounts held;
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    held[pool_->class_of(g)] = static_cast<std::int64_t>(tables_[g].size());
  }
  return held;
}

Shortage Sequence::reserve(std::int32_t tokens) noexcept {
  if (paging_ == Paging::at_append) return {};
  trim();
  const std::int32_t wanted = pages_for(tokens);
  const auto first = static_cast<std::size_t>(computed_ / pool_->page_size());
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    const auto held = static_cast<std::int32_t>(tables_[g].size());
    const std::int64_t needed = std::int64_t{wanted > held ? wanted - held : 0} + shared_pages(g, first);
    if (needed > pool_->pages(g).free()) return {Shortage::Kind::pages, needed, pool_->pages(g).free()};
  }
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    if (!own_pages(g, first)) return {Shortage::Kind::device, 0, 0};
    while (static_cast<std::int32_t>(tables_[g].size()) < wanted) tables_[g].push_back(pool_->pages(g).take());
  }
  return {};
}

void Sequence::evict() noexcept {
  computed_ = 0;
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    for (const std::int32_t page : tables_[g]) pool_->pages(g).release(page);
    tables_[g].clear();
  }
}

Shortage Sequence::recompute_last() noexcept {
  if (paging_ == Paging::at_step) trim();
  const Shortage shortage = own_last_pages(0);
  if (shortage.kind == Shortage::Kind::none && computed_ == size()) --computed_;
  return shortage;
}

void Sequence::rewind(std::int32_t size) noexcept {
  tokens_.resize(static_cast<std::size_t>(size));
  computed_ = computed_ < size ? computed_ : size;
  if (paging_ == Paging::at_append) trim();
}

void Sequence::trim() noexcept {
  const auto keep = static_cast<std::size_t>(pages_for(size()));
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    while (tables_[g].size() > keep) {
      pool_->pages(g).release(tables_[g].back());
      tables_[g].pop_back();
    }
  }
}

void Sequence::share(const Sequence& other) noexcept {
  tokens_.assign(other.tokens_.begin(), other.tokens_.end());
  computed_ = other.computed_;
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    tables_[g].assign(other.tables_[g].begin(), other.tables_[g].end());
    for (const std::int32_t page : tables_[g]) pool_->pages(g).share(page);
  }
}

}  // namespace llminfer::runtime
