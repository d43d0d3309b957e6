// Feeds a device the weights of a model file, converted where the graph asks for another type.
#pragma once

#include <llminfer/backend/backend.hpp>
#include <memory>
#include <vector>

#include "core/vector.h"
#include "format/model_file.h"

namespace llminfer::models {

/// (several threads) Borrows nothing: holds the file, the graph and the tensors.
class FileWeights final : public backend::WeightReader {
 public:
  FileWeights(format::ModelFile file, std::shared_ptr<const backend::Graph> graph,
              core::Vector<format::TensorInfo> tensors)
      : file_(std::move(file)), graph_(std::move(graph)), tensors_(std::move(tensors)) {}

  Result<void> read_rows(backend::WeightId weight, std::int64_t first_row, std::int64_t count,
                         std::span<std::byte> out) const override;
  Result<backend::SourceIdentity> identity() const override;
  Result<std::uint64_t> content_hash() const override;

 private:
  void read(backend::WeightId weight, std::int64_t first_row, std::int64_t count, std::span<std::byte> out) const;

  format::ModelFile file_;
  std::shared_ptr<const backend::Graph> graph_;
  core::Vector<format::TensorInfo> tensors_;
  std::shared_ptr<core::Memory> memory_ = std::make_shared<core::Memory>();
};

}  // namespace llminfer::models
