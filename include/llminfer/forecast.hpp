// How fast a model will be on a device, from metadata alone: nothing is loaded, and the device need not be here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <llminfer/ceilings.hpp>
#include <llminfer/device_description.hpp>
#include <llminfer/error.hpp>
#include <llminfer/export.hpp>
#include <llminfer/kv_type.hpp>
#include <llminfer/model_source.hpp>
#include <llminfer/profile_report.hpp>
#include <llminfer/weight_type.hpp>

namespace llminfer {
inline namespace v0 {

struct Workload {
  std::vector<int> batches{1, 4, 16};  ///< sequences computed at once; 1 .. 65,536 each
  int prompt = 512;                    ///< tokens of each prompt
  int generate = 128;                  ///< new tokens of each sequence; decoding is forecast at its mean depth
  int step_tokens = 512;               ///< most tokens of a step: the chunk of a prompt
  WeightType weight_type = WeightType::as_stored;  ///< as LoadOptions::weight_type
  KvType k = KvType::automatic;                    ///< automatic: the device's default
  KvType v = KvType::automatic;
};

struct ForecastRow {
  int sequences = 1;
  double prefill_tokens_per_s = 0;
  double first_token_s = 0;        ///< of one request alone on the device
  double decode_tokens_per_s = 0;  ///< of all sequences
  std::uint64_t memory = 0;        ///< weights, activations, and the cache of all sequences at full length
  bool fits = true;                ///< in the device's memory; true where that is unknown
  Bound prefill_bound = Bound::compute;
  Bound decode_bound = Bound::memory;
};

struct Forecast {
  std::string device{};
  std::uint64_t memory_available = 0;  ///< 0: unknown
  std::uint64_t weights = 0;
  std::uint64_t activations = 0;
  std::uint64_t kv_per_token = 0;
  int largest_batch = 0;            ///< sequences of full length that fit; 0: unknown
  int knee = 0;                     ///< sequences from which on a doubled batch takes twice as long; 0: none found
  bool calibrated = true;           ///< false: efficiencies are a guess, run measure_ceilings with weight types
  std::vector<ForecastRow> rows{};  ///< one a batch of the workload
};

/// On a device that was measured. `memory`: bytes it has, 0 when unknown. Errors: what the file has wrong,
/// invalid_argument naming a field of the workload, or ceilings without a measurement.
LLMINFER_API Result<Forecast> forecast(const ModelSource& model, const Ceilings& device, const Workload& workload = {},
                                       std::uint64_t memory = 0);

/// On a device that is described. Several replicas share the sequences; a replica never has less than one.
LLMINFER_API Result<Forecast> forecast(const ModelSource& model, const DeviceDescription& device,
                                       const Workload& workload = {});

/// Weight types of a model's matrices: what to calibrate for it. Errors as Model::inspect.
LLMINFER_API Result<std::vector<WeightType>> weight_types(const ModelSource& model);

}  // namespace v0
}  // namespace llminfer
