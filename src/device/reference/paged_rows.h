// KV pages of the reference device. A page is, layer by layer, page_size token rows of K (head by head), then of V.
#pragma once

#include <llminfer/backend/backend.hpp>
#include <vector>

#include "core/memory.h"

namespace llminfer::device::reference {

constexpr std::int32_t page_size = 32;

class PagedRows final : public backend::KvStorage {
 public:
  PagedRows(const backend::Graph& graph, backend::KvFormat format, std::span<const std::int32_t> pages,
            const std::shared_ptr<core::Memory>& memory);

  std::uint64_t page_bytes(std::int32_t group) const noexcept override;
  backend::Status copy_page(std::int32_t group, std::int32_t from, std::int32_t to) noexcept override;
  backend::Status read_page(std::int32_t group, std::int32_t page, std::span<std::byte> out) const noexcept override;
  backend::Status write_page(std::int32_t group, std::int32_t page, std::span<const std::byte> in) noexcept override;
  const char* layout() const noexcept override { return "reference-1"; }

  std::span<const std::int32_t> pages() const noexcept { return pages_; }

  /// One head's row of a token: page and slot within it as the page table says. Unchecked.
  void write(bool value, backend::StateSlot slot, std::int32_t page, std::int32_t offset, std::int32_t head,
             const float* in) noexcept;
  void read(bool value, backend::StateSlot slot, std::int32_t page, std::int32_t offset, std::int32_t head,
            float* out) const noexcept;

 private:
  struct Group {
    backend::StateGroup shape;
    std::uint64_t k_row = 0;
    std::uint64_t v_row = 0;
    std::uint64_t page = 0;
    core::Buffer bytes;
  };
  std::uint64_t offset_of(const Group& g, bool value, std::int32_t layer, std::int32_t page, std::int32_t offset,
                          std::int32_t head) const noexcept;
  bool valid(std::int32_t group, std::int32_t page) const noexcept;

  backend::KvFormat format_;
  std::vector<Group> groups_;
  std::vector<std::int32_t> pages_;
};

/// Bytes of one page of a group.
std::uint64_t page_bytes(const backend::StateGroup& group, backend::KvFormat format) noexcept;

}  // namespace llminfer::device::reference
