// What the ops of the reference device work on: one step's batch, activations, weights and cache.
#pragma once

#include <Eigen/Core>
#include <llminfer/backend/backend.hpp>
#include <span>
#include <vector>

#include "core/memory.h"
#include "device/reference/paged_rows.h"

namespace llminfer::device::reference {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstMap = Eigen::Map<const Matrix>;
using Map = Eigen::Map<Matrix>;

/// A weight unpacked to float32: experts * rows x columns.
struct FloatWeight {
  core::Array<float> values;
  std::int64_t columns = 0;
  std::int64_t rows = 0;
  const float* row(std::int64_t r) const noexcept { return values.data() + r * columns; }
};

/// Borrowed for one run.
struct Step {
  const backend::Graph& graph;
  const backend::StepBatch& batch;
  std::span<const FloatWeight> weights;
  std::span<const std::uint64_t> offsets;  ///< bytes of each value in `activations`
  std::byte* activations;
  PagedRows& kv;
  std::span<double> scores;  ///< room for one row of attention scores: context values
  std::span<float> row;      ///< room for one cached key or value

  std::int64_t rows(backend::ValueId id) const noexcept {
    const bool tokens = graph.values[static_cast<std::size_t>(id)].rows == backend::Rows::tokens;
    return static_cast<std::int64_t>(tokens ? batch.tokens.size() : batch.output_rows.size());
  }
  std::int64_t width(backend::ValueId id) const noexcept { return graph.values[static_cast<std::size_t>(id)].width; }
  float* data(backend::ValueId id) const noexcept {
    return reinterpret_cast<float*>(activations + offsets[static_cast<std::size_t>(id)]);
  }
  float* data(backend::ValueId id, std::int64_t row) const noexcept { return data(id) + row * width(id); }
  const FloatWeight& weight(backend::WeightId id) const noexcept { return weights[static_cast<std::size_t>(id)]; }
};

}  // namespace llminfer::device::reference
