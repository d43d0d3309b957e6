// What a profile says: where the time went, what bound it, and what would help.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <llminfer/export.hpp>
#include <llminfer/kv_type.hpp>
#include <llminfer/weight_type.hpp>

namespace llminfer {
inline namespace v0 {

/// Steps of prompts' chunks alone, of one token for each sequence, and of both.
enum class PhaseKind : std::uint8_t { prefill, decode, mixed };
constexpr int phase_kinds = 3;
LLMINFER_API const char* to_string(PhaseKind phase) noexcept;

/// What bounds a phase.
enum class Bound : std::uint8_t {
  memory,       ///< reading weights from main memory
  compute,      ///< multiply-adds
  kv,           ///< reading cached keys and values
  overhead,     ///< ops too small for the device, scheduling, sampling
  waiting,      ///< for the application, or threads for each other
  threads,      ///< cores that the process has and the device does not use
  slow_kernel,  ///< one kind of op takes much longer than such kernels do
};
LLMINFER_API const char* to_string(Bound bound) noexcept;

/// Ops that have something in common, summed. Bytes are those that must move, whatever caches did.
struct OpSummary {
  std::string name{};  ///< a kind of op, a layer, a weight type
  double seconds = 0;  ///< at work, waiting not included
  std::uint64_t weight_bytes = 0;
  std::uint64_t activation_bytes = 0;
  std::uint64_t kv_bytes = 0;
  std::uint64_t flops = 0;
  double roof_seconds = 0;      ///< at the roofs of this device
  double expected_seconds = 0;  ///< as forecast: what kernels like these took in the calibration
  bool compute_bound = false;   ///< by which of the two roofs

  std::uint64_t bytes() const noexcept { return weight_bytes + activation_bytes + kv_bytes; }
  double bytes_per_s() const noexcept { return seconds > 0 ? static_cast<double>(bytes()) / seconds : 0; }
  double flops_per_s() const noexcept { return seconds > 0 ? static_cast<double>(flops) / seconds : 0; }
  /// Operations per byte.
  double intensity() const noexcept {
    return bytes() > 0 ? static_cast<double>(flops) / static_cast<double>(bytes()) : 0;
  }
  /// Of the attainable roof.
  double roof_share() const noexcept { return seconds > 0 ? roof_seconds / seconds : 0; }
  /// 1: as forecast; 2: twice as long.
  double times_expected() const noexcept { return expected_seconds > 0 ? seconds / expected_seconds : 0; }
};

struct PhaseReport {
  PhaseKind kind = PhaseKind::decode;
  std::uint64_t steps = 0;
  std::uint64_t tokens = 0;
  double sequences = 0;     ///< mean of a step
  double context = 0;       ///< mean tokens before the step, of a sequence
  double seconds = 0;       ///< steps, and what followed each until the next, idle excluded
  double step_seconds = 0;  ///< in the device
  double barrier_seconds = 0;
  double dispatch_seconds = 0;  ///< in the device, in no op
  double sampling_seconds = 0;
  double scheduling_seconds = 0;
  double outside_seconds = 0;
  OpSummary all{};
  std::vector<OpSummary> by_op{};  ///< most seconds first
  std::vector<OpSummary> by_type{};
  std::vector<OpSummary> by_layer{};  ///< in order; ops outside the layers under "embed" and "head"
  Bound bound = Bound::memory;
  std::string evidence{};  ///< one sentence
  double tokens_per_s() const noexcept { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

/// Parts of the wall time; they add up to it.
struct TimeParts {
  double wall = 0;
  double ops = 0;
  double barriers = 0;
  double dispatch = 0;
  double sampling = 0;
  double scheduling = 0;
  double outside = 0;  ///< the application: callbacks, between calls
  double idle = 0;
};

struct Advice {
  PhaseKind phase = PhaseKind::decode;
  std::string move{};  ///< "compute 8 sequences at once"
  double gain = 1;     ///< tokens per second afterwards / now, as forecast
  std::string why{};
};

/// Forecast throughput of decoding by batch size.
struct BatchPoint {
  int sequences = 1;
  double tokens_per_s = 0;  ///< of all sequences
};

struct MemoryMap {
  std::vector<std::pair<WeightType, std::uint64_t>> weights{};  ///< bytes, most first
  std::uint64_t activations = 0;
  std::uint64_t kv_used = 0;  ///< by the sequences of the last step
  std::uint64_t kv_free = 0;
};

struct ProfileReport {
  std::string model{};
  std::string device{};  ///< name, ISA, threads
  int threads = 1;
  std::string warning{};   ///< of the ceilings; may be empty
  double memory_rate = 0;  ///< roofs, per second
  double cache_rate = 0;
  double int8_rate = 0;
  double f32_rate = 0;
  KvType k = KvType::f16;
  KvType v = KvType::f16;
  TimeParts time{};
  std::vector<PhaseReport> phases{};  ///< that had steps, most seconds first
  std::vector<Advice> advice{};       ///< greatest gain first; none below 5 %
  std::vector<BatchPoint> batches{};
  int knee = 0;  ///< sequences from which on a doubled batch takes twice as long; 0: none found
  MemoryMap memory{};

  LLMINFER_API std::string text() const;
  LLMINFER_API std::string json() const;
  /// One self-contained page with its pictures: needs no network.
  LLMINFER_API std::string html() const;
  /// The pictures alone, as SVG: "roofline", "time", "memory", "batch"; empty for another name.
  LLMINFER_API std::string svg(std::string_view picture) const;
};

}  // namespace v0
}  // namespace llminfer
