// Memory that a Session and its forks, or a Batcher, share: pages with their storage, a workspace, and the lock.
#pragma once

#include <atomic>
#include <llminfer/backend/backend.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/memory.h"
#include "runtime/page_counts.h"
#include "runtime/page_pool.h"
#include "runtime/prefix_cache.h"

namespace llminfer::runtime {

class Executor;
class Sequence;

/// What a pool is made of and for.
struct PoolOptions {
  std::shared_ptr<const backend::Program> program;
  std::shared_ptr<const backend::Graph> graph;
  backend::Limits limits{};
  backend::KvFormat format{};
  std::int32_t page_size = 0;
  std::vector<std::int32_t> pages{};  ///< per state group, equal for groups of one window
  std::optional<PrefixCacheOptions> prefix_cache{};
  std::shared_ptr<core::Memory> host{};  ///< counts page lists and histories; null: the heap
};

/// Whoever touches pages, sequences or the workspace holds mutex().
class Pool {
 public:
  /// Takes all memory. Throws what the device reports.
  explicit Pool(PoolOptions options);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  const backend::Graph& graph() const noexcept { return *options_.graph; }
  const backend::Program& program() const noexcept { return *options_.program; }
  const backend::Limits& limits() const noexcept { return options_.limits; }
  const std::shared_ptr<core::Memory>& host() const noexcept { return options_.host; }
  std::int32_t page_size() const noexcept { return options_.page_size; }
  std::size_t groups() const noexcept { return pools_.size(); }
  /// Index into PageCounts of a state group.
  std::size_t class_of(std::size_t group) const noexcept { return classes_[group]; }
  PageCounts total_pages() const noexcept { return total_; }
  /// (mutex) What can be taken now; of groups of one class the smallest number.
  PageCounts free_pages() const noexcept;
  /// (mutex) Of these, what the prefix cache keeps.
  PageCounts cached_pages() const noexcept;

  std::mutex& mutex() noexcept { return mutex_; }
  /// For a thread that takes the mutex again and again (a batch's loop): lets those that wait in a PoolLock go first.
  void give_way() const noexcept;
  /// Null: this pool has none.
  PrefixCache* prefix_cache() noexcept { return prefix_cache_.get(); }
  const PrefixCache* prefix_cache() const noexcept { return prefix_cache_.get(); }
  /// (mutex) Empty when every page is free, cached or referenced exactly as often as `sequences`, which must be all of
  /// this pool, do; otherwise what is wrong. For tests.
  std::string invariants(std::span<const Sequence* const> sequences) const;
  PagePool& pages(std::size_t group) noexcept { return pools_[group]; }
  const PagePool& pages(std::size_t group) const noexcept { return pools_[group]; }
  backend::KvStorage& storage() noexcept { return *storage_; }
  backend::Workspace& workspace() noexcept { return *workspace_; }
  Executor& executor() noexcept { return *executor_; }

 private:
  PoolOptions options_;
  std::vector<PagePool> pools_;
  std::vector<std::size_t> classes_;  // per group
  PageCounts total_;
  std::unique_ptr<PrefixCache> prefix_cache_;
  std::unique_ptr<backend::KvStorage> storage_;
  std::unique_ptr<backend::Workspace> workspace_;
  std::unique_ptr<Executor> executor_;
  std::mutex mutex_;
  std::atomic<int> waiting_{0};

  friend class PoolLock;
};

/// The mutex of a pool, taken by somebody who is not a loop over steps.
class PoolLock {
 public:
  explicit PoolLock(Pool& pool) : mutex_(pool.mutex_) {
    pool.waiting_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    pool.waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  PoolLock(const PoolLock&) = delete;
  PoolLock& operator=(const PoolLock&) = delete;
  ~PoolLock() { mutex_.unlock(); }

 private:
  std::mutex& mutex_;
};

}  // namespace llminfer::runtime
