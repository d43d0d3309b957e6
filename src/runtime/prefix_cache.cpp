#include "runtime/prefix_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace llminfer::runtime {

PrefixCache::PrefixCache(const PrefixCacheOptions& options, const backend::Graph& graph, std::int32_t page_size,
                         std::vector<PagePool>& pools, const std::shared_ptr<core::Memory>& memory)
    : pools_(pools),
      hasher_(options.secret),
      page_size_(static_cast<std::size_t>(page_size)),
      keys_(memory),
      tokens_(memory),
      pages_(memory),
      free_(memory),
      table_(memory) {
  std::size_t nodes = 0;
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    windows_.push_back(graph.states[g].window);
    any_keeps_all_ = any_keeps_all_ || keeps_all(g);
  }
  // A node has a page in each group that keeps all; without such groups it has at least one page somewhere.
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    const auto pages = static_cast<std::size_t>(pools_[g].size());
    nodes = any_keeps_all_ ? std::max(nodes, keeps_all(g) ? pages : 0) : nodes + pages;
    pools_[g].set_owner(this, g);
  }
  hasher_.update_value(options.fingerprint.low);
  hasher_.update_value(options.fingerprint.high);
  keys_.resize(nodes);
  tokens_.resize(nodes * page_size_);
  pages_.assign(nodes * pools_.size(), none);
  free_.reserve(nodes);
  for (std::size_t n = nodes; n > 0; --n) free_.push_back(static_cast<std::int32_t>(n - 1));
  table_.assign(std::bit_ceil(2 * nodes + 2), none);
  mask_ = table_.size() - 1;
}

PrefixCache::Key PrefixCache::root(std::uint64_t salt) const noexcept {
  constexpr std::int32_t adapter = 0;
  core::Hasher hasher = hasher_;
  hasher.update_value(adapter);
  hasher.update_value(salt);
  return hasher.finish();
}

PrefixCache::Key PrefixCache::next(const Key& before, std::span<const Token> page) const noexcept {
  core::Hasher hasher = hasher_;
  hasher.update_value(before.low);
  hasher.update_value(before.high);
  hasher.update_values(page);
  return hasher.finish();
}

std::span<const Token> PrefixCache::tokens_of(std::int32_t node) const noexcept {
  return std::span<const Token>(tokens_).subspan(static_cast<std::size_t>(node) * page_size_, page_size_);
}

/// Where the key is, or the empty bucket where it would be.
std::size_t PrefixCache::bucket_of(const Key& key) const noexcept {
  std::size_t b = home(key);
  while (table_[b] != none && !(keys_[static_cast<std::size_t>(table_[b])] == key)) b = (b + 1) & mask_;
  return b;
}

std::int32_t PrefixCache::find(const Key& key, std::span<const Token> page) const noexcept {
  const std::int32_t node = table_[bucket_of(key)];
  if (node == none) return none;
  const std::span<const Token> known = tokens_of(node);
  return std::equal(known.begin(), known.end(), page.begin(), page.end()) ? node : none;
}

/// -1 when the key stands for other tokens, or no node is left.
std::int32_t PrefixCache::find_or_add(const Key& key, std::span<const Token> tokens) noexcept {
  const std::size_t bucket = bucket_of(key);
  if (table_[bucket] != none) return find(key, tokens);
  if (free_.empty()) return none;
  const std::int32_t node = free_.back();
  free_.pop_back();
  keys_[static_cast<std::size_t>(node)] = key;
  std::copy(tokens.begin(), tokens.end(),
            tokens_.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(node) * page_size_));
  table_[bucket] = node;
  return node;
}

void PrefixCache::remember(std::int32_t node, std::size_t group, std::int32_t page) noexcept {
  std::int32_t& known = pages_[static_cast<std::size_t>(node) * pools_.size() + group];
  if (page < 0 || known >= 0 || pools_[group].mark(page) >= 0) return;
  known = page;
  pools_[group].set_mark(page, node);
}

void PrefixCache::forget(std::size_t group, std::int32_t page, std::int32_t node) noexcept {
  stats_.evictions += pools_[group].references(page) == 0 ? 1 : 0;
  std::int32_t* const pages = &pages_[static_cast<std::size_t>(node) * pools_.size()];
  pages[group] = none;
  const bool empty = std::all_of(pages, pages + pools_.size(), [](std::int32_t p) { return p == none; });
  if (keeps_all(group) || empty) remove(node);
}

void PrefixCache::remove(std::int32_t node) noexcept {
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    std::int32_t& page = pages_[static_cast<std::size_t>(node) * pools_.size() + g];
    if (page >= 0) pools_[g].clear_mark(page);
    page = none;
  }
  // Backward shift: what comes after an empty bucket must not have its home before it.
  std::size_t hole = bucket_of(keys_[static_cast<std::size_t>(node)]);
  for (std::size_t b = (hole + 1) & mask_; table_[b] != none; b = (b + 1) & mask_) {
    const std::size_t wanted = home(keys_[static_cast<std::size_t>(table_[b])]);
    if (((b - wanted) & mask_) < ((b - hole) & mask_)) continue;
    table_[hole] = table_[b];
    hole = b;
  }
  table_[hole] = none;
  free_.push_back(node);
}

std::string PrefixCache::invariants() const {
  std::vector<bool> unused(keys_.size(), false);
  for (const std::int32_t node : free_) unused[static_cast<std::size_t>(node)] = true;
  std::vector<std::int64_t> marks(pools_.size(), 0);
  for (std::size_t n = 0; n < keys_.size(); ++n) {
    const auto node = static_cast<std::int32_t>(n);
    bool any = false;
    for (std::size_t g = 0; g < pools_.size(); ++g) {
      const std::int32_t p = page(node, g);
      if (p >= 0 && pools_[g].mark(p) != node) return fmt::format("node {} has page {} of another", node, p);
      marks[g] += p >= 0 ? 1 : 0;
      any = any || p >= 0;
      if (!unused[n] && p < 0 && keeps_all(g)) return fmt::format("node {} lacks its page in group {}", node, g);
    }
    if (any == unused[n]) return fmt::format("node {} is in use: {}, has pages: {}", node, !unused[n], any);
    if (!unused[n] && find(keys_[n], tokens_of(node)) != node) return fmt::format("node {} is not found", node);
  }
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    std::int64_t marked = 0;
    for (std::int32_t p = 0; p < pools_[g].size(); ++p) marked += pools_[g].mark(p) >= 0 ? 1 : 0;
    if (marked != marks[g]) return fmt::format("{} pages of group {} have a mark, {} a node", marked, g, marks[g]);
  }
  const auto entries = std::count_if(table_.begin(), table_.end(), [](std::int32_t n) { return n != none; });
  if (entries != nodes()) return fmt::format("{} entries for {} nodes", entries, nodes());
  return {};
}

}  // namespace llminfer::runtime
