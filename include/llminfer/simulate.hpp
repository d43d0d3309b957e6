// How a server would do: a day of traffic on a described device in minutes, with the library's own scheduler and pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <vector>

#include <llminfer/device_description.hpp>
#include <llminfer/error.hpp>
#include <llminfer/export.hpp>
#include <llminfer/kv_type.hpp>
#include <llminfer/model_source.hpp>
#include <llminfer/weight_type.hpp>

namespace llminfer {
inline namespace v0 {

/// Numbers of tokens, log-normal: half of them are below the median, two thirds within a factor e^sigma of it.
struct TokenCounts {
  double median = 1;  ///< 1 .. 1e6
  double sigma = 0;   ///< of the logarithm; 0 .. 4; 0: all are equal to the median
};

/// Requests as they come. The same traffic comes for the same values. The defaults for lengths are fitted to the
/// conversations of Azure's published trace (AzurePublicDataset, LLM inference 2023).
struct Traffic {
  std::int64_t requests = 1000;  ///< 1 .. 1e9
  double rate = 1;               ///< of them a second, on average; 1e-6 .. 1e6
  double burstiness = 1;         ///< standard deviation of the time between two, over its mean: 1 is a Poisson process,
                                 ///< more comes in bursts (gamma-distributed gaps); 0 .. 100
  double daily_swing = 0;        ///< the rate goes up and down by this share of it, once in 24 hours; 0 .. 1
  TokenCounts prompt{760, 0.985};
  TokenCounts output{151, 0.859};
  double prefix_share = 0;  ///< of requests whose prompt begins with a prefix that others have too; 0 .. 1
  int prefix_tokens = 512;  ///< length of such a prefix, which comes before the prompt's own tokens
  int prefixes = 16;        ///< how many there are, equally frequent; 1 .. 1e6
  std::uint64_t seed = 1;
};

enum class BatchMode : std::uint8_t {
  fixed,       ///< a batch is filled, computed until its last sequence ends, then the next is filled
  continuous,  ///< sequences join and leave at every step; a prompt is computed in one step
  chunked,     ///< the same, but a step has at most step_tokens tokens: long prompts are computed in chunks
};

/// "fixed", "continuous" or "chunked". Never null.
LLMINFER_API const char* to_string(BatchMode mode) noexcept;

/// What a server decides. Defaults as those of BatcherOptions.
struct BatchPolicy {
  BatchMode mode = BatchMode::chunked;
  int max_sequences = 32;    ///< most sequences of a step; 1 .. 4096
  int step_tokens = 512;     ///< most tokens of a step if chunked, at least max_sequences; 1 .. 65536
  bool prefix_cache = true;  ///< as BatcherOptions::prefix_cache
  std::size_t kv_bytes = 0;  ///< for keys and values, of each replica; 0: what weights and activations leave
};

struct SimulationOptions {
  int context = 0;  ///< most tokens of one sequence, longer requests are cut; 0: what the model was trained for
  KvType k = KvType::automatic;
  KvType v = KvType::automatic;
  WeightType weight_type = WeightType::as_stored;  ///< as LoadOptions::weight_type
  std::function<void(double)> progress{};          ///< share of the requests that have ended, 0 .. 1
};

/// Seconds, or what the field says. Quantiles are within 0.8 % of the true ones.
struct Quantiles {
  double mean = 0, p50 = 0, p95 = 0, p99 = 0, most = 0;
};

/// Means over a stretch of simulated time.
struct SimulationMoment {
  double begin = 0;       ///< seconds since the start
  double page_share = 0;  ///< of all pages that are in use
  double running = 0;     ///< sequences that are being computed, all replicas
  double queued = 0;      ///< requests that wait for their first step
};

struct SimulationReport {
  std::int64_t requests = 0;         ///< that came; each ends once
  std::int64_t completed = 0;        ///< with all their tokens
  std::int64_t failed = 0;           ///< that the pages of a whole replica could not hold
  double seconds = 0;                ///< from the first arrival to the last end
  std::int64_t prompt_tokens = 0;    ///< of completed requests
  std::int64_t output_tokens = 0;    ///< of completed requests
  std::int64_t computed_tokens = 0;  ///< by the device, what was computed again included
  std::int64_t reused_tokens = 0;    ///< of prompts, taken from the prefix cache and not computed
  std::int64_t steps = 0;
  std::int64_t preemptions = 0;
  double requests_per_second = 0;
  double output_per_second = 0;  ///< tokens
  double busy = 0;               ///< share of the time that the devices compute
  double sequences_per_step = 0;
  Quantiles first_token{};     ///< from the arrival
  Quantiles between_tokens{};  ///< of one request
  Quantiles whole{};           ///< from the arrival to the last token
  Quantiles queue_time{};      ///< from the arrival to the first step
  int pages = 0;               ///< of each replica
  double page_share_mean = 0;
  double page_share_most = 0;
  double queue_mean = 0;
  std::int64_t queue_most = 0;
  std::vector<SimulationMoment> moments{};  ///< at most 256 stretches of equal length
};

/// Runs the traffic through the described device: the graph is built from the model's metadata, no weight is read, and
/// nothing is computed but what a step costs (the roofline of docs/scheduling.md) and what the scheduler decides.
/// Replicas have one queue; each takes from it when a step ends, as many as its share of what is there. About a
/// microsecond a token. Errors: what the file has wrong, invalid_argument naming the field and its value, out_of_memory
/// when weights and activations leave no page on the device, cancelled after a stop request.
LLMINFER_API Result<SimulationReport> simulate(const ModelSource& model, const DeviceDescription& device,
                                               const Traffic& traffic, const BatchPolicy& policy,
                                               const SimulationOptions& options = {}, std::stop_token stop = {});

}  // namespace v0
}  // namespace llminfer
