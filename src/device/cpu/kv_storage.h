// The pages of all state groups. A page of group g holds 32 tokens: for each layer and head a block of keys, behind it
// one of values (their form: kernels/kv.inc). Attention reads both, and what lies together comes faster.
#pragma once

#include <memory>
#include <vector>

#include <llminfer/backend/backend.hpp>

#include "core/memory.h"

namespace llminfer::cpu {

/// Sizes in a page of one group.
struct PageShape {
  std::int64_t k_block = 0;  ///< bytes of one head's 32 keys
  std::int64_t v_block = 0;
  std::int64_t head_bytes = 0;
  std::int64_t layer_bytes = 0;
  std::int64_t page_bytes = 0;
};

/// Throws unsupported_type where the format cannot hold the widths, out_of_memory where sizes leave 63 bits.
PageShape page_shape(const backend::StateGroup& group, backend::KvFormat format);

class CpuKvStorage final : public backend::KvStorage {
 public:
  /// Takes the memory. Throws.
  CpuKvStorage(std::shared_ptr<const backend::Graph> graph, backend::KvFormat format,
               std::span<const std::int32_t> pages, const std::shared_ptr<core::Memory>& memory);

  std::uint64_t page_bytes(std::int32_t group) const noexcept override;
  backend::Status copy_page(std::int32_t group, std::int32_t from, std::int32_t to) noexcept override;
  backend::Status read_page(std::int32_t group, std::int32_t page, std::span<std::byte> out) const noexcept override;
  backend::Status write_page(std::int32_t group, std::int32_t page, std::span<const std::byte> in) noexcept override;
  /// bf16 lies in pairs since "cpu-3", all else as in "cpu-2".
  const char* layout() const noexcept override {
    return format_.k == KvType::bf16 || format_.v == KvType::bf16 ? "cpu-3" : "cpu-2";
  }

  struct Group {
    PageShape shape{};
    core::Buffer buffer{};
  };
  const backend::Graph* graph() const noexcept { return graph_.get(); }
  backend::KvFormat format() const noexcept { return format_; }
  /// Number of pages of each group.
  std::span<const std::int32_t> pages() const noexcept { return pages_; }
  const Group& group(std::int32_t index) const noexcept { return groups_[static_cast<std::size_t>(index)]; }
  std::byte* data(std::int32_t index) noexcept { return groups_[static_cast<std::size_t>(index)].buffer.data(); }

 private:
  bool valid(std::int32_t group, std::int32_t page) const noexcept;
  std::byte* page_at(std::int32_t group, std::int32_t page) noexcept;

  std::shared_ptr<const backend::Graph> graph_;
  backend::KvFormat format_;
  std::vector<Group> groups_{};
  std::vector<std::int32_t> pages_{};
};

}  // namespace llminfer::cpu
