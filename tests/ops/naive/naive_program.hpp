// The parts of the naive device: cache, activations, compiled graph.
#pragma once

#include <mutex>

#include "naive_backend.hpp"

namespace naive {

using namespace llminfer::backend;  // NOLINT(google-build-using-namespace): the whole interface is used

constexpr std::int32_t page_size = 16;

/// Pages of floats: [page][layer][token of the page][head][k_width + v_width], already rounded to the cache's formats.
class Cache final : public KvStorage {
 public:
  Cache(const Graph& graph, KvFormat format, std::span<const std::int32_t> pages);
  std::uint64_t page_bytes(std::int32_t group) const noexcept override;
  Status copy_page(std::int32_t group, std::int32_t from, std::int32_t to) noexcept override;
  Status read_page(std::int32_t group, std::int32_t page, std::span<std::byte> out) const noexcept override;
  Status write_page(std::int32_t group, std::int32_t page, std::span<const std::byte> in) noexcept override;
  const char* layout() const noexcept override { return "naive-1"; }

  KvFormat format() const noexcept { return format_; }
  std::int32_t pages(std::size_t group) const noexcept { return counts_[group]; }
  std::size_t groups() const noexcept { return counts_.size(); }
  /// A head's key, followed by its value.
  float* row(StateSlot slot, std::int32_t page, std::int32_t offset, std::int32_t head) noexcept;

 private:
  float* page(std::int32_t group, std::int32_t index) const noexcept;
  bool valid(std::int32_t group, std::int32_t index) const noexcept;

  std::vector<StateGroup> shapes_;
  KvFormat format_;
  std::vector<std::int32_t> counts_;
  mutable std::vector<std::vector<float>> data_;
};

std::uint64_t page_floats(const StateGroup& group) noexcept;

/// Every activation has memory of its own.
class Activations final : public Workspace {
 public:
  Activations(const Graph& graph, const Limits& limits);
  std::vector<std::vector<double>> values;
  std::vector<double> scores;  ///< one row of attention scores, or of a router's
  std::vector<float> narrow;   ///< one cached row before it is rounded
};

/// Weights as float.
struct Weights {
  std::vector<std::vector<float>> values;
};

class CompiledGraph final : public Program {
 public:
  CompiledGraph(std::shared_ptr<const Graph> graph, Limits limits, Weights weights, Formats formats);
  llminfer::Result<std::unique_ptr<Workspace>> workspace() const override;
  llminfer::Result<std::unique_ptr<KvStorage>> make_kv(KvFormat format,
                                                       std::span<const std::int32_t> pages) const override;
  Status run(const StepBatch& batch, KvStorage& kv, Workspace& workspace, const StepOutputs& outputs,
             const StopFlag& stop, ProfileSink* profile) const noexcept override;

 private:
  std::shared_ptr<const Graph> graph_;
  Limits limits_;
  Weights weights_;
  Formats formats_;
  mutable std::mutex turn_;  ///< runs take turns
};

/// One step over a batch that check() accepted.
struct Step {
  const Graph& graph;
  const Weights& weights;
  const Formats& formats;
  const StepBatch& batch;
  Cache& cache;
  Activations& space;

  std::size_t rows(ValueId id) const noexcept;
  std::size_t width(ValueId id) const noexcept;
  double* row(ValueId id, std::size_t r) const noexcept;
  const float* weight(WeightId id) const noexcept { return weights.values[static_cast<std::size_t>(id)].data(); }
};

/// Runs op by op (ops.cpp, attention.cpp).
void run(const Op& op, const Step& step) noexcept;
void run_cache_op(const KvWrite& op, const Step& step) noexcept;
void run_cache_op(const PagedAttention& op, const Step& step) noexcept;

/// Refuses what is out of bounds (check.cpp).
Status check(const Graph& graph, const Limits& limits, const Cache& cache, const StepBatch& batch,
             const StepOutputs& outputs) noexcept;

/// Copies or reduces the last value into the caller's memory (outputs.cpp).
void give_out(const Step& step, const StepOutputs& outputs) noexcept;

}  // namespace naive
