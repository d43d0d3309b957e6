// A device that computes nothing: pages hold one number per token and layer group, so that sharing and copying can be
// seen.
#pragma once

#include <llminfer/backend/backend.hpp>
#include <memory>
#include <vector>

#include "runtime/pool.h"

namespace llminfer::tests {

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
  backend::Status read_page(std::int32_t, std::int32_t, std::span<std::byte>) const noexcept override { return {}; }
  backend::Status write_page(std::int32_t, std::int32_t, std::span<const std::byte>) noexcept override { return {}; }
  const char* layout() const noexcept override { return "fake"; }
  Token& slot(std::size_t group, std::int32_t page, std::int32_t offset) {
    return slots_[group][static_cast<std::size_t>(page * page_size_ + offset)];
  }
  int copies = 0;

 private:
  std::int32_t page_size_;
  std::vector<std::vector<Token>> slots_;
};

/// Writes each token's id into its slot and checks on the way that the history before it is intact.
class FakeProgram final : public backend::Program {
 public:
  explicit FakeProgram(std::int32_t page_size) : page_size_(page_size) {}
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
        for (std::int32_t i = 0; i < r.count; ++i) {
          const std::int32_t p = r.start + i;
          storage.slot(g, table.pages[p / page_size_], p % page_size_) =
              batch.tokens[static_cast<std::size_t>(r.first + i)];
        }
      }
    }
    return {};
  }
  mutable bool fail_next = false;

 private:
  std::int32_t page_size_;
};

struct FakePool {
  explicit FakePool(std::int32_t pages, std::int32_t page_size = 4, std::size_t groups = 2) {
    auto graph = std::make_shared<backend::Graph>();
    graph->states.resize(groups);
    graph->vocabulary = 1000;
    graph->context = 1 << 20;
    program = std::make_shared<FakeProgram>(page_size);
    runtime::PoolOptions options;
    options.program = program;
    options.graph = graph;
    options.limits = {16, 4, 4};
    options.page_size = page_size;
    options.pages.assign(groups, pages);
    pool = std::make_shared<runtime::Pool>(std::move(options));
  }
  FakeStorage& storage() const { return static_cast<FakeStorage&>(pool->storage()); }
  std::shared_ptr<FakeProgram> program;
  std::shared_ptr<runtime::Pool> pool;
};

}  // namespace llminfer::tests
