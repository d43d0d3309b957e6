// The pages of all state groups on the GPU. Layout: kernels/kv_layout.h.
#pragma once

#include <llminfer/backend/backend.hpp>

#include <memory>
#include <vector>

#include "host/engine.h"
#include "kernels/kv_layout.h"

namespace llminfer::cuda {

/// Bytes of one page of a group. Throws unsupported_type, out_of_memory.
std::int64_t kv_page_bytes(const backend::StateGroup& group, backend::KvFormat format);

class CudaKvStorage final : public backend::KvStorage {
 public:
  CudaKvStorage(std::shared_ptr<Engine> engine, std::shared_ptr<const backend::Graph> graph, backend::KvFormat format,
                std::span<const std::int32_t> pages);

  std::uint64_t page_bytes(std::int32_t group) const noexcept override;
  backend::Status copy_page(std::int32_t group, std::int32_t from, std::int32_t to) noexcept override;
  backend::Status read_page(std::int32_t group, std::int32_t page, std::span<std::byte> out) const noexcept override;
  backend::Status write_page(std::int32_t group, std::int32_t page, std::span<const std::byte> in) noexcept override;
  /// q8_0 and q4_0 lie in planes since "cuda-2", all else as in "cuda-1".
  const char* layout() const noexcept override {
    const auto plain = [](KvType t) { return t == KvType::f32 || t == KvType::f16 || t == KvType::bf16; };
    return plain(format_.k) && plain(format_.v) ? "cuda-1" : "cuda-2";
  }

  const backend::Graph* graph() const noexcept { return graph_.get(); }
  std::uint64_t id() const noexcept { return id_; }  ///< no other cache of the device has or had it
  std::span<const std::int32_t> pages() const noexcept { return pages_; }
  /// Keys (or values) of a layer, for the kernels.
  KvSide side(backend::StateSlot slot, bool values) const noexcept;

 private:
  bool valid(std::int32_t group, std::int32_t page) const noexcept;
  std::uint8_t* page_at(std::int32_t group, std::int32_t page) const noexcept;
  backend::Status copy(void* to, const void* from, std::uint64_t bytes, cudaMemcpyKind kind) const noexcept;

  std::shared_ptr<Engine> engine_;
  std::uint64_t id_;
  std::shared_ptr<const backend::Graph> graph_;
  backend::KvFormat format_;
  std::vector<std::int64_t> page_bytes_{};
  std::vector<std::int32_t> pages_;
  std::vector<Memory> memory_{};
};

}  // namespace llminfer::cuda
