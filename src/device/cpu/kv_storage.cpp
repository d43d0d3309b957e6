#include "device/cpu/kv_storage.h"

#include <cstring>

#include "core/checked.h"
#include "core/fail.h"
#include "device/cpu/kernels.h"

namespace llminfer::cpu {
namespace {

constexpr backend::Status bad_page{ErrorCode::invalid_argument, "KV page or group out of range"};
constexpr backend::Status bad_size{ErrorCode::mismatch, "KV page of another size"};

std::int64_t product(std::int64_t a, std::int64_t b) {
  return core::mul_or_fail(a, b, "bytes of KV pages", ErrorCode::out_of_memory);
}

}  // namespace

PageShape page_shape(const backend::StateGroup& group, backend::KvFormat format) {
  const auto stored = [](KvType type) { return type > KvType::automatic && type <= KvType::q4_0; };
  if (!stored(format.k) || !stored(format.v)) {
    core::fail(ErrorCode::unsupported_type, "KV cache: keys as {} and values as {} cannot be stored",
               to_string(format.k), to_string(format.v));
  }
  PageShape shape;
  shape.k_block = k_block_bytes(format.k, group.k_width);
  shape.v_block = v_block_bytes(format.v, group.v_width);
  shape.head_bytes = core::add_or_fail(shape.k_block, shape.v_block, "bytes of KV pages", ErrorCode::out_of_memory);
  shape.layer_bytes = product(group.heads, shape.head_bytes);
  shape.page_bytes = product(group.layers, shape.layer_bytes);
  return shape;
}

CpuKvStorage::CpuKvStorage(std::shared_ptr<const backend::Graph> graph, backend::KvFormat format,
                           std::span<const std::int32_t> pages, const std::shared_ptr<core::Memory>& memory)
    : graph_(std::move(graph)), format_(format), groups_(graph_->states.size()), pages_(pages.begin(), pages.end()) {
  if (pages.size() != groups_.size()) {
    core::fail(ErrorCode::invalid_argument, "pages: {} counts for {} state groups", pages.size(), groups_.size());
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (pages[g] < 0) core::fail(ErrorCode::invalid_argument, "pages: {} of group {}", pages[g], g);
    groups_[g].shape = page_shape(graph_->states[g], format);
    // 64 bytes more: vector loads of the last rows may reach behind them.
    const std::int64_t bytes = core::add_or_fail<std::int64_t>(product(groups_[g].shape.page_bytes, pages[g]), 64,
                                                               "bytes of KV pages", ErrorCode::out_of_memory);
    groups_[g].buffer = core::Buffer::make_zeroed(memory, static_cast<std::size_t>(bytes));
  }
}

bool CpuKvStorage::valid(std::int32_t group, std::int32_t page) const noexcept {
  return group >= 0 && static_cast<std::size_t>(group) < groups_.size() && page >= 0 &&
         page < pages_[static_cast<std::size_t>(group)];
}

std::byte* CpuKvStorage::page_at(std::int32_t group, std::int32_t page) noexcept {
  Group& g = groups_[static_cast<std::size_t>(group)];
  return g.buffer.data() + g.shape.page_bytes * page;
}

std::uint64_t CpuKvStorage::page_bytes(std::int32_t group) const noexcept {
  if (group < 0 || static_cast<std::size_t>(group) >= groups_.size()) return 0;
  return static_cast<std::uint64_t>(groups_[static_cast<std::size_t>(group)].shape.page_bytes);
}

backend::Status CpuKvStorage::copy_page(std::int32_t group, std::int32_t from, std::int32_t to) noexcept {
  if (!valid(group, from) || !valid(group, to)) return bad_page;
  if (from != to) std::memcpy(page_at(group, to), page_at(group, from), page_bytes(group));
  return {};
}

backend::Status CpuKvStorage::read_page(std::int32_t group, std::int32_t page,
                                        std::span<std::byte> out) const noexcept {
  if (!valid(group, page)) return bad_page;
  if (out.size() != page_bytes(group)) return bad_size;
  const Group& g = groups_[static_cast<std::size_t>(group)];
  std::memcpy(out.data(), g.buffer.data() + g.shape.page_bytes * page, out.size());
  return {};
}

backend::Status CpuKvStorage::write_page(std::int32_t group, std::int32_t page,
                                         std::span<const std::byte> in) noexcept {
  if (!valid(group, page)) return bad_page;
  if (in.size() != page_bytes(group)) return bad_size;
  std::memcpy(page_at(group, page), in.data(), in.size());
  return {};
}

}  // namespace llminfer::cpu
