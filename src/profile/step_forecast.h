// Seconds of a step and of whole workloads from a graph and a cost model.
#pragma once

#include <llminfer/profile_report.hpp>

#include "profile/cost_model.h"

namespace llminfer::profile {

/// A step taken apart. memory, compute and kv are effective: with the efficiencies of the kernels, whichever is larger
/// counts in `seconds`.
struct StepForecast {
  double seconds = 0;
  double memory_s = 0;  ///< in ops that memory binds, the cache's reads not included
  double compute_s = 0;
  double kv_s = 0;
  double overhead_s = 0;
  Bound bound() const noexcept;
};

StepForecast forecast_step(const CostModel& model, const backend::Graph& graph, const graph::BatchShape& batch);

/// Sequences of one new token each, all with `context` tokens before.
graph::BatchShape decode_batch(int sequences, int context, backend::KvFormat kv);

/// Tokens per second of all sequences, choosing tokens included.
double decode_rate(const CostModel& model, const backend::Graph& graph, const graph::BatchShape& batch);

/// A prompt computed in chunks, the last row wanted.
StepForecast forecast_prefill(const CostModel& model, const backend::Graph& graph, int prompt, int step_tokens,
                              backend::KvFormat kv);

/// The batch from which on a doubled one takes the products nearly twice as long: arithmetic takes the time; 0: none
/// below 4,096.
int knee_of(const CostModel& model, const backend::Graph& graph, int context, backend::KvFormat kv);

/// The graph with its matrices in another type; those whose rows are no multiple of its block stay.
backend::Graph with_weight_type(const backend::Graph& graph, WeightType type);

std::uint64_t weight_bytes_of(const backend::Graph& graph);
/// Of one sequence, all layers.
std::uint64_t kv_bytes_per_token(const backend::Graph& graph, backend::KvFormat kv);

}  // namespace llminfer::profile
