#include "host/kv_storage.h"

#include "core/checked.h"
#include "core/fail.h"
#include "host/errors.h"

namespace llminfer::cuda {
namespace {

constexpr backend::Status bad_page{ErrorCode::invalid_argument, "KV page or group out of range"};
constexpr backend::Status bad_size{ErrorCode::mismatch, "KV page of another size"};

std::int64_t layer_bytes(const backend::StateGroup& g, backend::KvFormat format) {
  if (format.k == KvType::automatic || format.v == KvType::automatic) {
    core::fail(ErrorCode::unsupported_type, "KV cache: the format is not resolved");
  }
  const std::int64_t both = kv_block_bytes(format.k, g.k_width) + kv_block_bytes(format.v, g.v_width);
  return core::mul_or_fail<std::int64_t>(g.heads, both, "bytes of KV pages", ErrorCode::out_of_memory);
}

}  // namespace

std::int64_t kv_page_bytes(const backend::StateGroup& g, backend::KvFormat format) {
  return core::mul_or_fail<std::int64_t>(g.layers, layer_bytes(g, format), "bytes of KV pages",
                                         ErrorCode::out_of_memory);
}

CudaKvStorage::CudaKvStorage(std::shared_ptr<Engine> engine, std::shared_ptr<const backend::Graph> graph,
                             backend::KvFormat format, std::span<const std::int32_t> pages)
    : engine_(std::move(engine)),
      id_(++engine_->caches),
      graph_(std::move(graph)),
      format_(format),
      pages_(pages.begin(), pages.end()) {
  if (pages.size() != graph_->states.size()) {
    core::fail(ErrorCode::invalid_argument, "pages: {} counts for {} state groups", pages.size(),
               graph_->states.size());
  }
  const std::lock_guard<std::mutex> turn(engine_->turn);
  for (std::size_t g = 0; g < pages.size(); ++g) {
    if (pages[g] < 0) core::fail(ErrorCode::invalid_argument, "pages: {} of group {}", pages[g], g);
    page_bytes_.push_back(kv_page_bytes(graph_->states[g], format));
    const auto bytes = static_cast<std::uint64_t>(
        core::mul_or_fail<std::int64_t>(page_bytes_.back(), pages[g], "bytes of KV pages", ErrorCode::out_of_memory));
    memory_.emplace_back(engine_, Memory::Kind::device, bytes);
    if (bytes != 0) check(cudaMemsetAsync(memory_.back().data(), 0, bytes, engine_->stream()), "clearing KV pages");
  }
  check(cudaStreamSynchronize(engine_->stream()), "clearing KV pages");
}

KvSide CudaKvStorage::side(backend::StateSlot slot, bool values) const noexcept {
  const auto g = static_cast<std::size_t>(slot.group);
  const backend::StateGroup& group = graph_->states[g];
  const std::int64_t k_block = kv_block_bytes(format_.k, group.k_width);
  const std::int64_t v_block = kv_block_bytes(format_.v, group.v_width);
  KvSide s;
  s.data = memory_[g].data();
  s.page_bytes = page_bytes_[g];
  s.offset = slot.layer * group.heads * (k_block + v_block) + (values ? group.heads * k_block : 0);
  s.block_bytes = values ? v_block : k_block;
  s.width = values ? group.v_width : group.k_width;
  s.type = values ? format_.v : format_.k;
  return s;
}

bool CudaKvStorage::valid(std::int32_t group, std::int32_t page) const noexcept {
  return group >= 0 && static_cast<std::size_t>(group) < memory_.size() && page >= 0 &&
         page < pages_[static_cast<std::size_t>(group)];
}

std::uint8_t* CudaKvStorage::page_at(std::int32_t group, std::int32_t page) const noexcept {
  const auto g = static_cast<std::size_t>(group);
  return memory_[g].data() + page_bytes_[g] * page;
}

std::uint64_t CudaKvStorage::page_bytes(std::int32_t group) const noexcept {
  if (group < 0 || static_cast<std::size_t>(group) >= memory_.size()) return 0;
  return static_cast<std::uint64_t>(page_bytes_[static_cast<std::size_t>(group)]);
}

backend::Status CudaKvStorage::copy(void* to, const void* from, std::uint64_t bytes,
                                    cudaMemcpyKind kind) const noexcept {
  try {
    const std::lock_guard<std::mutex> turn(engine_->turn);
    if (const cudaError_t e = engine_->enter(); e != cudaSuccess) return status_of(e);
    const cudaError_t e = cudaMemcpyAsync(to, from, bytes, kind, engine_->stream());
    return status_of(e != cudaSuccess ? e : cudaStreamSynchronize(engine_->stream()));
  } catch (...) {  // a mutex that cannot be locked
    return {ErrorCode::device_lost, "a copy of a page failed"};
  }
}

backend::Status CudaKvStorage::copy_page(std::int32_t group, std::int32_t from, std::int32_t to) noexcept {
  if (!valid(group, from) || !valid(group, to)) return bad_page;
  if (from == to) return {};
  return copy(page_at(group, to), page_at(group, from), page_bytes(group), cudaMemcpyDeviceToDevice);
}

backend::Status CudaKvStorage::read_page(std::int32_t group, std::int32_t page,
                                         std::span<std::byte> out) const noexcept {
  if (!valid(group, page)) return bad_page;
  if (out.size() != page_bytes(group)) return bad_size;
  return copy(out.data(), page_at(group, page), out.size(), cudaMemcpyDeviceToHost);
}

backend::Status CudaKvStorage::write_page(std::int32_t group, std::int32_t page,
                                          std::span<const std::byte> in) noexcept {
  if (!valid(group, page)) return bad_page;
  if (in.size() != page_bytes(group)) return bad_size;
  return copy(page_at(group, page), in.data(), in.size(), cudaMemcpyHostToDevice);
}

}  // namespace llminfer::cuda
