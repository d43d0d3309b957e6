#include "runtime/sequence.h"

#include <algorithm>

namespace llminfer::runtime {

Sequence::Sequence(std::shared_ptr<Pool> pool, std::int32_t context, Paging paging)
    : pool_(std::move(pool)),
      context_(context),
      paging_(paging),
      tokens_(pool_->host()),
      tables_(pool_->groups(), core::Vector<std::int32_t>(pool_->host())),
      given_back_(pool_->groups(), 0),
      keys_(pool_->host()) {
  tokens_.reserve(static_cast<std::size_t>(context));
  for (core::Vector<std::int32_t>& table : tables_) table.reserve(static_cast<std::size_t>(pages_for(context)));
  if (pool_->prefix_cache() != nullptr) keys_.reserve(static_cast<std::size_t>(pages_for(context)));
}

Sequence::~Sequence() {
  rewind(0);
  trim();
}

std::int32_t Sequence::pages_for(std::int64_t tokens) const noexcept {
  const std::int64_t size = pool_->page_size();
  return static_cast<std::int32_t>((tokens + size - 1) / size);
}

/// How far a group's table must reach for a history of `tokens`: with a window no further than the next step can.
std::int32_t Sequence::target(std::size_t group, std::int64_t tokens) const noexcept {
  if (window(group) == 0) return pages_for(tokens);
  return pages_for(std::min(tokens, std::int64_t{computed_} + pool_->limits().tokens));
}

/// The first page that a query at `position` looks at.
std::int32_t Sequence::first_seen(std::size_t group, std::int64_t position) const noexcept {
  if (window(group) == 0) return 0;
  return static_cast<std::int32_t>(std::max<std::int64_t>(0, position - window(group) + 1) / pool_->page_size());
}

bool Sequence::window_is_gone() const noexcept {
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    if (first_seen(g, computed_) < given_back_[g]) return true;
  }
  return false;
}

void Sequence::trim() noexcept {
  trim_tables();
  if (window_is_gone()) restart();
}

/// Everything is to be computed again. at_append the groups without a window keep their pages.
void Sequence::restart() noexcept {
  if (paging_ == Paging::at_step) {
    evict();
    return;
  }
  computed_ = 0;
  rewrite_ = size();
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    if (window(g) == 0) continue;
    give_back(g);
    extend(g, target(g, size()));
  }
}

/// All pages of a group, the last one first: it is of no use to others without those before it.
void Sequence::give_back(std::size_t group) noexcept {
  core::Vector<std::int32_t>& table = tables_[group];
  for (; !table.empty(); table.pop_back()) {
    if (table.back() >= 0) pool_->pages(group).release(table.back());
  }
  given_back_[group] = 0;
}

void Sequence::give_back_unseen() noexcept {
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    const std::int32_t seen = first_seen(g, computed_ - pool_->page_size());  // a page more, for going back a little
    for (std::int32_t& n = given_back_[g]; n < seen; ++n) {
      std::int32_t& entry = tables_[g][static_cast<std::size_t>(n)];
      pool_->pages(g).release(entry);
      entry = -1;
    }
  }
}

/// An empty table whose first `pages` entries are behind the window.
void Sequence::begin_behind(std::size_t group, std::int32_t pages) noexcept {
  core::Vector<std::int32_t>& table = tables_[group];
  given_back_[group] = pages;
  table.clear();
  while (static_cast<std::int32_t>(table.size()) < pages) table.push_back(-1);  // within the reserved capacity
}

/// As far as there are free pages.
void Sequence::extend(std::size_t group, std::int32_t pages) noexcept {
  core::Vector<std::int32_t>& table = tables_[group];
  while (static_cast<std::int32_t>(table.size()) < pages) {
    const std::int32_t page = pool_->pages(group).take();
    if (page < 0) return;
    table.push_back(page);  // within the reserved capacity
  }
}

/// Makes the page that the history ends in, in every group that has it already, this sequence's own, provided that the
/// pages which the tables lack for `size_after` tokens are then left; otherwise changes nothing.
Shortage Sequence::own_last_pages(std::int64_t size_after) noexcept {
  const auto last = static_cast<std::size_t>(pages_for(size())) - (size() > 0 ? 1 : 0);
  const bool inside = size() % pool_->page_size() != 0 || size_after == size();
  const auto end = [&](std::size_t g) { return inside && tables_[g].size() == last + 1 ? last + 1 : last; };
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    const std::int64_t fresh = target(g, size_after) - static_cast<std::int64_t>(tables_[g].size());
    const std::int64_t needed = std::max<std::int64_t>(0, fresh) + shared_pages(g, last, end(g));
    if (needed > pool_->pages(g).free()) return {Shortage::Kind::pages, needed, pool_->pages(g).free()};
  }
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    if (!own_pages(g, last, end(g))) return {Shortage::Kind::device, 0, 0};
  }
  return {};
}

Shortage Sequence::append(std::span<const Token> tokens) noexcept {
  const std::int64_t end = static_cast<std::int64_t>(tokens.size()) + size();
  if (end > context_) return {Shortage::Kind::context, end, context_};
  if (tokens.empty()) return {};
  if (paging_ == Paging::at_append) {
    const Shortage shortage = own_last_pages(end);
    if (shortage.kind != Shortage::Kind::none) return shortage;
    for (std::size_t g = 0; g < tables_.size(); ++g) extend(g, target(g, end));
  }
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());  // within the reserved capacity
  return {};
}

/// Pages of a table from index `first` to before `end` that others refer to as well.
std::int32_t Sequence::shared_pages(std::size_t group, std::size_t first, std::size_t end) const noexcept {
  std::int32_t n = 0;
  for (std::size_t i = first; i < end; ++i) {
    const std::int32_t page = tables_[group][i];
    n += page >= 0 && pool_->pages(group).references(page) > 1 ? 1 : 0;
  }
  return n;
}

/// Replaces those by copies, for which there are free pages, and lets the prefix cache forget the others: they are
/// going to be written. False when the device fails; what was copied stays.
bool Sequence::own_pages(std::size_t group, std::size_t first, std::size_t end) noexcept {
  PagePool& pages = pool_->pages(group);
  for (std::size_t i = first; i < end; ++i) {
    std::int32_t& page = tables_[group][i];
    if (page < 0) continue;
    if (pages.references(page) <= 1) {
      pages.disown(page);
      continue;
    }
    const std::int32_t copy = pages.take();
    if (copy < 0 || !pool_->storage().copy_page(static_cast<std::int32_t>(group), page, copy).ok()) {
      if (copy >= 0) pages.release(copy);
      return false;
    }
    pages.release(page);
    page = copy;
  }
  return true;
}

/// Index of the first page that reserve() must make its own. at_append that has been done, but for a history that is
/// computed a second time.
std::size_t Sequence::first_written() const noexcept {
  if (paging_ == Paging::at_append && computed_ >= rewrite_) return static_cast<std::size_t>(pages_for(context_));
  return static_cast<std::size_t>(computed_ / pool_->page_size());
}

PageCounts Sequence::missing_pages(std::int32_t tokens) noexcept {
  trim();
  PageCounts missing;
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    const std::int64_t fresh = target(g, tokens) - static_cast<std::int64_t>(tables_[g].size());
    std::int64_t& most = missing[pool_->class_of(g)];
    most = std::max(most, std::max<std::int64_t>(0, fresh) + shared_pages(g, first_written(), tables_[g].size()));
  }
  return missing;
}

PageCounts Sequence::pages() const noexcept {
  PageCounts held;
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    held[pool_->class_of(g)] = static_cast<std::int64_t>(tables_[g].size()) - given_back_[g];
  }
  return held;
}

Shortage Sequence::reserve(std::int32_t tokens) noexcept {
  trim();
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    const std::int64_t fresh = target(g, tokens) - static_cast<std::int64_t>(tables_[g].size());
    const std::int64_t needed = std::max<std::int64_t>(0, fresh) + shared_pages(g, first_written(), tables_[g].size());
    if (needed > pool_->pages(g).free()) return {Shortage::Kind::pages, needed, pool_->pages(g).free()};
  }
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    if (!own_pages(g, first_written(), tables_[g].size())) return {Shortage::Kind::device, 0, 0};
    extend(g, target(g, tokens));
  }
  return {};
}

void Sequence::evict() noexcept {
  computed_ = 0;
  for (std::size_t g = 0; g < tables_.size(); ++g) give_back(g);
}

Shortage Sequence::recompute_last() noexcept {
  trim();
  const Shortage shortage = own_last_pages(size());
  if (shortage.kind != Shortage::Kind::none || computed_ < size()) return shortage;
  --computed_;
  trim();
  return {};
}

void Sequence::commit(std::int32_t count) noexcept {
  const std::int32_t first = computed_ / pool_->page_size();
  computed_ += count;
  remember_pages(first, computed_ / pool_->page_size());
  give_back_unseen();
  if (paging_ == Paging::at_step) return;
  // What was given back serves the tokens that wait, before a fork can take it.
  for (std::size_t g = 0; g < tables_.size(); ++g) extend(g, target(g, size()));
}

void Sequence::rewind(std::int32_t size) noexcept {
  tokens_.resize(static_cast<std::size_t>(size));
  computed_ = std::min(computed_, size);
  rewrite_ = std::min(rewrite_, size);
  const auto whole = static_cast<std::size_t>(size / pool_->page_size());
  if (keys_.size() > whole) keys_.resize(whole);
  if (paging_ == Paging::at_append) trim();
}

void Sequence::trim_tables() noexcept {
  const auto keep = static_cast<std::size_t>(pages_for(size()));
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    core::Vector<std::int32_t>& table = tables_[g];
    for (; table.size() > keep; table.pop_back()) {
      if (table.back() >= 0) pool_->pages(g).release(table.back());
    }
    given_back_[g] = std::min(given_back_[g], static_cast<std::int32_t>(table.size()));
  }
}

void Sequence::share(const Sequence& other) noexcept {
  tokens_.assign(other.tokens_.begin(), other.tokens_.end());
  computed_ = other.computed_;
  rewrite_ = other.rewrite_;
  salt_ = other.salt_;
  keys_.assign(other.keys_.begin(), other.keys_.end());
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    tables_[g].assign(other.tables_[g].begin(), other.tables_[g].end());
    given_back_[g] = other.given_back_[g];
    for (const std::int32_t page : tables_[g]) {
      if (page >= 0) pool_->pages(g).share(page);
    }
  }
}

}  // namespace llminfer::runtime
