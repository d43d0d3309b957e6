// Packed weights in a file, for the next start and for other processes: LoadOptions::weight_cache.
//
// The file is a header of 4,096 bytes (magic, version of the layout, what the weights are of, checksums) and the arena
// as it lies in memory. What it says is believed only if all of it is as expected: sizes from the graph, not from the
// file; checksums of the header and of the arena. It holds nothing but weights: no offset or length of it is ever used.
#pragma once

#include <optional>

#include <llminfer/backend/backend.hpp>

#include "core/file.h"
#include "core/memory.h"
#include "core/thread_pool.h"
#include "device/cpu/weights.h"

namespace llminfer::cpu {

/// The arena: memory of this process, or pages of a file.
class PackedWeights {
 public:
  PackedWeights() = default;
  explicit PackedWeights(core::Buffer own) noexcept : own_(std::move(own)), data_(own_.data()) {}
  PackedWeights(core::MappedFile file, std::size_t offset) noexcept
      : file_(std::move(file)), data_(file_->bytes().data() + offset) {}

  const std::byte* data() const noexcept { return data_; }

 private:
  core::Buffer own_{};
  std::optional<core::MappedFile> file_{};
  const std::byte* data_ = nullptr;
};

struct LoadedWeights {
  PackedWeights weights{};
  WeightCache cache = WeightCache::unused;
};

/// The packed weights: from options.weight_cache if it is there and of these weights, else packed, and then written
/// there. Throws what pack_weights does, what the reader reports, invalid_argument (the path names something else).
LoadedWeights load_weights(const backend::Graph& graph, const WeightPlan& plan, const backend::WeightReader& reader,
                           const backend::CompileOptions& options, core::ThreadPool& pool,
                           const std::shared_ptr<core::Memory>& memory);

}  // namespace llminfer::cpu
