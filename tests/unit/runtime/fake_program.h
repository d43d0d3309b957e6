// A device that computes next to nothing: pages hold one number per token and state group, made of the token and the
// number before it, so that whatever a sequence reads wrongly shows in all that follows.
#pragma once

#include <cstring>
#include <llminfer/backend/backend.hpp>
#include <memory>
#include <vector>

#include "runtime/pool.h"
#include "runtime/sequence.h"

namespace llminfer::tests {

/// The number of a token that stands after one of number `before` (0: first).
inline std::int32_t fake_number(std::int32_t before, Token token) {
  const std::uint32_t x = (static_cast<std::uint32_t>(before) ^ static_cast<std::uint32_t>(token + 1)) * 2654435761U;
  return static_cast<std::int32_t>(x ^ x >> 15);
}

class FakeStorage final : public backend::KvStorage {
 public:
  FakeStorage(std::span<const std::int32_t> pages, std::int32_t page_size) : page_size_(page_size) {
    for (const std::int32_t n : pages) slots_.emplace_back(static_cast<std::size_t>(n * page_size), -1);
  }
  std::uint64_t page_bytes(std::int32_t) const noexcept override { return static_cast<std::uint64_t>(page_size_) * 4; }
  backend::Status copy_page(std::int32_t group, std::int32_t from, std::int32_t to) noexcept override {
    ++copies;
    auto& s = slots_[static_cast<std::size_t>(group)];
    for (std::int32_t i = 0; i < page_size_; ++i) {
      s[static_cast<std::size_t>(to * page_size_ + i)] = s[static_cast<std::size_t>(from * page_size_ + i)];
    }
    return {};
  }
  backend::Status read_page(std::int32_t group, std::int32_t page, std::span<std::byte> out) const noexcept override {
    std::memcpy(out.data(), &slots_[static_cast<std::size_t>(group)][static_cast<std::size_t>(page * page_size_)],
                out.size());
    return {};
  }
  backend::Status write_page(std::int32_t group, std::int32_t page, std::span<const std::byte> in) noexcept override {
    std::memcpy(&slots_[static_cast<std::size_t>(group)][static_cast<std::size_t>(page * page_size_)], in.data(),
                in.size());
    return {};
  }
  const char* layout() const noexcept override { return "fake"; }
  std::int32_t& slot(std::size_t group, std::int32_t page, std::int32_t offset) {
    return slots_[group][static_cast<std::size_t>(page * page_size_ + offset)];
  }
  int copies = 0;

 private:
  std::int32_t page_size_;
  std::vector<std::vector<std::int32_t>> slots_;
};

/// Writes each token's number into its slot. Refuses a table that lacks a page inside the window.
class FakeProgram final : public backend::Program {
 public:
  FakeProgram(std::int32_t page_size, std::vector<std::int32_t> windows)
      : page_size_(page_size), windows_(std::move(windows)) {}
  Result<std::unique_ptr<backend::Workspace>> workspace() const override {
    return std::make_unique<backend::Workspace>();
  }
  Result<std::unique_ptr<backend::KvStorage>> make_kv(backend::KvFormat,
                                                      std::span<const std::int32_t> pages) const override {
    return std::unique_ptr<backend::KvStorage>(std::make_unique<FakeStorage>(pages, page_size_));
  }
  backend::Status run(const backend::StepBatch& batch, backend::KvStorage& kv, backend::Workspace&,
                      const backend::StepOutputs&, const backend::StopFlag& stop,
                      backend::ProfileSink*) const noexcept override {
    if (stop.requested()) return {ErrorCode::cancelled, "cancelled"};
    if (fail_next) {
      fail_next = false;
      return {ErrorCode::device_lost, "planted failure"};
    }
    auto& storage = static_cast<FakeStorage&>(kv);
    const std::size_t groups = batch.sequences.empty() ? 0 : batch.page_tables.size() / batch.sequences.size();
    for (std::size_t g = 0; g < groups; ++g) {
      for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
        const backend::SequenceRange& r = batch.sequences[s];
        const backend::PageTable& table = batch.page_tables[g * batch.sequences.size() + s];
        const std::int32_t seen = windows_[g] > 0 ? std::max(0, r.start - windows_[g] + 1) : 0;
        for (std::int32_t p = seen / page_size_; p <= (r.start + r.count - 1) / page_size_; ++p) {
          if (p >= table.count || table.pages[p] < 0) return {ErrorCode::invalid_argument, "a page is missing"};
        }
        for (std::int32_t i = 0; i < r.count; ++i) {
          const std::int32_t p = r.start + i;
          const std::int32_t q = p - 1;
          const std::int32_t before = p == 0 ? 0 : storage.slot(g, table.pages[q / page_size_], q % page_size_);
          storage.slot(g, table.pages[p / page_size_], p % page_size_) =
              fake_number(before, batch.tokens[static_cast<std::size_t>(r.first + i)]);
        }
      }
    }
    return {};
  }
  mutable bool fail_next = false;

 private:
  std::int32_t page_size_;
  std::vector<std::int32_t> windows_;
};

/// State groups with these windows (0: none), each of so many pages.
struct FakePool {
  explicit FakePool(std::int32_t pages, std::int32_t page_size = 4, std::vector<std::int32_t> windows = {0, 0},
                    bool cache = false)
      : FakePool(std::vector<std::int32_t>(windows.size(), pages), page_size, windows, cache) {}
  FakePool(std::vector<std::int32_t> pages, std::int32_t page_size, std::vector<std::int32_t> windows,
           bool cache = false) {
    const std::size_t groups = windows.size();
    auto graph = std::make_shared<backend::Graph>();
    graph->states.resize(groups);
    for (std::size_t g = 0; g < groups; ++g) graph->states[g].window = windows[g];
    graph->vocabulary = 1000;
    graph->context = 1 << 20;
    program = std::make_shared<FakeProgram>(page_size, std::move(windows));
    runtime::PoolOptions options;
    options.program = program;
    options.graph = graph;
    options.limits = {16, 4, 4};
    options.page_size = page_size;
    options.pages = std::move(pages);
    if (cache) options.prefix_cache = runtime::PrefixCacheOptions{{1, 2}, {3, 4}};
    pool = std::make_shared<runtime::Pool>(std::move(options));
  }
  /// Empty when counts and pages are right and every computed token that a query can still see has its number.
  std::string wrong(const std::vector<const runtime::Sequence*>& sequences) const {
    std::string out = pool->invariants(sequences);
    std::vector<std::int32_t> numbers;
    for (const runtime::Sequence* s : sequences) {
      numbers.clear();
      for (const Token token : s->tokens()) numbers.push_back(fake_number(numbers.empty() ? 0 : numbers.back(), token));
      for (std::size_t g = 0; g < pool->groups(); ++g) {
        const std::int32_t window = pool->graph().states[g].window;
        for (std::int32_t p = window > 0 ? std::max(0, s->computed() - window + 1) : 0; p < s->computed(); ++p) {
          const std::int32_t page = s->table(g)[static_cast<std::size_t>(p / pool->page_size())];
          // at_step a sequence that went back finds only in reserve() that its window is gone.
          if (page < 0 && s->paging() == runtime::Paging::at_step) continue;
          const bool right =
              page >= 0 && storage().slot(g, page, p % pool->page_size()) == numbers[static_cast<std::size_t>(p)];
          if (!right && out.empty()) out = "group " + std::to_string(g) + ": wrong at position " + std::to_string(p);
        }
      }
    }
    return out;
  }
  FakeStorage& storage() const { return static_cast<FakeStorage&>(pool->storage()); }
  std::shared_ptr<FakeProgram> program;
  std::shared_ptr<runtime::Pool> pool;
};

}  // namespace llminfer::tests
