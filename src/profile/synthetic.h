// A decoder of made-up shape and weights, to measure kernels on: never the model that is being forecast.
#pragma once

#include <array>
#include <llminfer/backend/backend.hpp>
#include <memory>
#include <vector>

namespace llminfer::profile {

struct SyntheticShape {
  std::int32_t width = 1024;
  std::int32_t heads = 16;
  std::int32_t kv_heads = 4;
  std::int32_t head_width = 64;
  std::int32_t feed_forward = 2816;
  std::int32_t vocabulary = 8192;
  std::int32_t context = 4096;
  std::array<std::int32_t, 2> other_kv_heads{};  ///< of the second and third of every three layers; 0: as the first
};

/// One layer an entry of `types`, its matrices of that type; embedding and head are of the first type.
std::shared_ptr<const backend::Graph> synthetic_decoder(const SyntheticShape& shape,
                                                        const std::vector<WeightType>& types);

/// Weights without meaning whose scales are ordinary numbers (no infinities, nothing denormal). (several threads)
class SyntheticWeights final : public backend::WeightReader {
 public:
  explicit SyntheticWeights(std::shared_ptr<const backend::Graph> graph) : graph_(std::move(graph)) {}
  Result<void> read_rows(backend::WeightId weight, std::int64_t first_row, std::int64_t count,
                         std::span<std::byte> out) const override;

 private:
  std::shared_ptr<const backend::Graph> graph_;
};

}  // namespace llminfer::profile
