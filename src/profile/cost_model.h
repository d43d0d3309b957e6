// From the bytes and operations of an op to seconds: the roofs of a device, and which part of them kernels reach.
#pragma once

#include <array>
#include <cstdint>
#include <llminfer/ceilings.hpp>
#include <llminfer/device_description.hpp>
#include <vector>

#include "graph/cost.h"

namespace llminfer::profile {

/// How long an op would take if nothing but memory, or nothing but arithmetic, took time.
struct RoofTime {
  double memory_s = 0;
  double compute_s = 0;
  double seconds() const noexcept { return memory_s > compute_s ? memory_s : compute_s; }
  bool by_compute() const noexcept { return compute_s > memory_s; }
};

/// What the efficiency of an op depends on: see Efficiency.
struct KernelClass {
  KernelFamily family = KernelFamily::rows;
  WeightType type = WeightType::as_stored;
  double tokens = 1, context = 0, width = 0;

  bool operator==(const KernelClass& other) const noexcept {
    return family == other.family && type == other.type && tokens == other.tokens && context == other.context &&
           width == other.width;
  }
};

class CostModel;

/// Shares already looked up in a step: its ops ask for a handful of different ones.
class ShareCache {
 public:
  void clear() noexcept { size_ = 0; }
  double get(const CostModel& model, const KernelClass& kernel, bool by_compute) noexcept;

 private:
  struct Entry {
    KernelClass kernel;
    bool by_compute;
    double share;
  };
  std::array<Entry, 32> entries_{};
  std::size_t size_ = 0;
};

/// Roofs and efficiencies of one device with one number of threads. Weights and cached keys and values come from main
/// memory unless all of them fit into the last cache; activations come from that cache.
class CostModel {
 public:
  /// Measured. `threads`: one of those measured; 0 or another: all.
  explicit CostModel(const Ceilings& ceilings, int threads = 0);
  explicit CostModel(const DeviceDescription& device);

  double memory_rate() const noexcept { return memory_; }
  double cache_rate() const noexcept { return cache_; }
  std::uint64_t cache_bytes() const noexcept { return cache_bytes_; }
  /// Operations per second at best for an op of the graph. A device with float multiply-adds unpacks halves for them;
  /// its bf16 products, if it has any, are those of attention over a bf16 cache. One without multiplies all by these.
  double compute_rate(const backend::Graph& graph, const backend::Op& op, backend::KvFormat kv) const noexcept;
  double quantized_rate() const noexcept { return quantized_; }
  double f32_rate() const noexcept { return f32_; }
  /// Whether efficiencies come from a calibration or a description, not from a guess.
  bool calibrated() const noexcept { return calibrated_; }

  /// `resident`: weights and cache of the whole model fit into the last cache.
  bool resident(const backend::Graph& graph, const graph::BatchShape& batch) const;
  RoofTime roof(const backend::Graph& graph, std::size_t op, const graph::OpCost& cost, backend::KvFormat kv,
                bool resident) const noexcept;

  /// What the op will take. Includes its share of what every op costs however small it is. `cache`: of this step.
  double seconds(const backend::Graph& graph, std::size_t op, const graph::OpCost& cost, const graph::BatchShape& batch,
                 bool resident, ShareCache* cache = nullptr) const;
  /// What a step costs beside its ops.
  double step_overhead(const backend::Graph& graph) const noexcept;
  /// Choosing one token from a row of logits.
  double sample_seconds(const backend::Graph& graph) const noexcept;
  double op_overhead() const noexcept { return op_overhead_; }

  /// Seconds of which an efficiency is a part: the higher roof; of attention always the same one, bytes for single
  /// tokens and operations for prompts, since efficiencies of few and of many heads to a key lie on both sides of the
  /// ridge.
  static double basis(const KernelClass& kernel, const RoofTime& roof) noexcept {
    if (kernel.family != KernelFamily::attention) return roof.seconds();
    return kernel.tokens <= 1 ? roof.memory_s : roof.compute_s;
  }
  /// Part of the roof that such an op reaches.
  double share(const KernelClass& kernel, bool by_compute) const noexcept;

 private:
  double unevenness(const backend::Graph& graph, const backend::Op& op, const graph::BatchShape& batch) const noexcept;
  double share_at(const KernelClass& kernel, int width) const noexcept;

  double memory_ = 1, cache_ = 1;
  int threads_ = 1;
  std::uint64_t cache_bytes_ = 0;
  double quantized_ = 1, half_ = 1, attention_ = 1, attention_bf16_ = 1, f32_ = 1;
  double memory_share_ = 0.85, compute_share_ = 0.5;  // where nothing was measured
  double op_overhead_ = 0, group_overhead_ = 0, step_overhead_ = 0, sample_ = 0;
  bool calibrated_ = false;
  bool described_ = false;
  std::vector<Efficiency> efficiencies_;
};

KernelFamily family_of(const backend::Op& op) noexcept;
KernelClass class_of(const backend::Graph& graph, const backend::Op& op, const graph::BatchShape& batch,
                     const graph::OpCost& cost);
/// Of the matrix that a product reads; as_stored for other ops.
WeightType weight_type_of(const backend::Graph& graph, const backend::Op& op) noexcept;

}  // namespace llminfer::profile
