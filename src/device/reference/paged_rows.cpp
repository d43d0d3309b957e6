#include "device/reference/paged_rows.h"

#include <cstring>

#include "core/checked.h"
#include "core/fail.h"
#include "device/common/kv_codec.h"
#include "graph/cost.h"

namespace llminfer::device::reference {

using backend::Status;

std::uint64_t page_bytes(const backend::StateGroup& group, backend::KvFormat format) noexcept {
  const std::uint64_t row = graph::kv_row_bytes(format.k, group.k_width) + graph::kv_row_bytes(format.v, group.v_width);
  return row * static_cast<std::uint64_t>(group.heads) * page_size * static_cast<std::uint64_t>(group.layers);
}

PagedRows::PagedRows(const backend::Graph& graph, backend::KvFormat format, std::span<const std::int32_t> pages,
                     const std::shared_ptr<core::Memory>& memory)
    : format_(format), pages_(pages.begin(), pages.end()) {
  if (format.k == KvType::automatic || format.v == KvType::automatic) {
    core::fail(ErrorCode::invalid_argument, "KV types must be resolved before make_kv");
  }
  if (pages.size() != graph.states.size()) {
    core::fail(ErrorCode::invalid_argument, "page counts for {} state groups, the graph has {}", pages.size(),
               graph.states.size());
  }
  for (std::size_t g = 0; g < pages.size(); ++g) {
    if (pages[g] < 0) core::fail(ErrorCode::invalid_argument, "{} pages in state group {}", pages[g], g);
    Group group;
    group.shape = graph.states[g];
    group.k_row = graph::kv_row_bytes(format.k, group.shape.k_width);
    group.v_row = graph::kv_row_bytes(format.v, group.shape.v_width);
    group.page = reference::page_bytes(group.shape, format);
    const std::uint64_t total = core::mul_or_fail(group.page, static_cast<std::uint64_t>(pages[g]), "KV bytes");
    group.bytes = core::Buffer::make_zeroed(memory, total);
    groups_.push_back(std::move(group));
  }
}

std::uint64_t PagedRows::page_bytes(std::int32_t group) const noexcept {
  const bool known = group >= 0 && static_cast<std::size_t>(group) < groups_.size();
  return known ? groups_[static_cast<std::size_t>(group)].page : 0;
}

bool PagedRows::valid(std::int32_t group, std::int32_t page) const noexcept {
  return group >= 0 && static_cast<std::size_t>(group) < groups_.size() && page >= 0 &&
         page < pages_[static_cast<std::size_t>(group)];
}

Status PagedRows::copy_page(std::int32_t group, std::int32_t from, std::int32_t to) noexcept {
  if (!valid(group, from) || !valid(group, to)) return {ErrorCode::invalid_argument, "page to copy is out of range"};
  Group& g = groups_[static_cast<std::size_t>(group)];
  std::byte* base = g.bytes.data();
  std::memmove(base + static_cast<std::uint64_t>(to) * g.page, base + static_cast<std::uint64_t>(from) * g.page,
               g.page);
  return {};
}

Status PagedRows::read_page(std::int32_t group, std::int32_t page, std::span<std::byte> out) const noexcept {
  if (!valid(group, page)) return {ErrorCode::invalid_argument, "page to read is out of range"};
  const Group& g = groups_[static_cast<std::size_t>(group)];
  if (out.size() != g.page) return {ErrorCode::invalid_argument, "a page has another size"};
  std::memcpy(out.data(), g.bytes.data() + static_cast<std::uint64_t>(page) * g.page, g.page);
  return {};
}

Status PagedRows::write_page(std::int32_t group, std::int32_t page, std::span<const std::byte> in) noexcept {
  if (!valid(group, page)) return {ErrorCode::invalid_argument, "page to write is out of range"};
  Group& g = groups_[static_cast<std::size_t>(group)];
  if (in.size() != g.page) return {ErrorCode::invalid_argument, "a page has another size"};
  std::memcpy(g.bytes.data() + static_cast<std::uint64_t>(page) * g.page, in.data(), g.page);
  return {};
}

std::uint64_t PagedRows::offset_of(const Group& g, bool value, std::int32_t layer, std::int32_t page,
                                   std::int32_t offset, std::int32_t head) const noexcept {
  const auto heads = static_cast<std::uint64_t>(g.shape.heads);
  const std::uint64_t layer_bytes = (g.k_row + g.v_row) * heads * page_size;
  const std::uint64_t row = value ? g.v_row : g.k_row;
  const std::uint64_t plane = value ? g.k_row * heads * page_size : 0;
  return static_cast<std::uint64_t>(page) * g.page + static_cast<std::uint64_t>(layer) * layer_bytes + plane +
         (static_cast<std::uint64_t>(offset) * heads + static_cast<std::uint64_t>(head)) * row;
}

void PagedRows::write(bool value, backend::StateSlot slot, std::int32_t page, std::int32_t offset, std::int32_t head,
                      const float* in) noexcept {
  Group& g = groups_[static_cast<std::size_t>(slot.group)];
  encode_kv(value ? format_.v : format_.k, in, value ? g.shape.v_width : g.shape.k_width,
            g.bytes.data() + offset_of(g, value, slot.layer, page, offset, head));
}

void PagedRows::read(bool value, backend::StateSlot slot, std::int32_t page, std::int32_t offset, std::int32_t head,
                     float* out) const noexcept {
  const Group& g = groups_[static_cast<std::size_t>(slot.group)];
  decode_kv(value ? format_.v : format_.k, g.bytes.data() + offset_of(g, value, slot.layer, page, offset, head),
            value ? g.shape.v_width : g.shape.k_width, out);
}

}  // namespace llminfer::device::reference
