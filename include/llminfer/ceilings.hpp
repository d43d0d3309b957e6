// What a device could do at best: the roofs that a profile is compared with and a forecast starts from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <llminfer/error.hpp>
#include <llminfer/export.hpp>
#include <llminfer/weight_type.hpp>

namespace llminfer {
inline namespace v0 {

class Device;

/// A rate measured in several rounds: the best of them, and how far the rest lies below: (best - median) / best.
struct MeasuredRate {
  double best = 0;  ///< per second; 0: not measured, or the device has no such thing
  double spread = 0;
};

struct CacheCeiling {
  int level = 0;            ///< 1 .. 3
  std::uint64_t bytes = 0;  ///< of one such cache
  MeasuredRate read{};      ///< bytes per second, all threads together, each in data of its own that fits
};

/// Ceilings with so many threads at work.
struct ThreadCeilings {
  int threads = 1;
  MeasuredRate read{};  ///< main memory, bytes per second
  MeasuredRate copy{};  ///< bytes read plus bytes written, per second
  std::vector<CacheCeiling> caches{};
  MeasuredRate f32{};    ///< operations per second (a multiply-add is two) of the fused multiply-adds of the kernels
  MeasuredRate int8{};   ///< of their 8-bit integer products; 0: they have none
  MeasuredRate bf16{};   ///< of their bf16 dot products; 0: they have none
  double barrier_s = 0;  ///< one barrier of all threads
};

enum class KernelFamily : std::uint8_t { matmul, attention, rows };

/// Which part of its roof a kind of kernel reached on synthetic shapes.
struct Efficiency {
  KernelFamily family = KernelFamily::rows;
  WeightType type = WeightType::as_stored;  ///< matmul only
  int tokens = 1;                           ///< the class: rows of the product, tokens of the step; attention: of one
                                            ///< sequence
  int context = 0;                          ///< attention: tokens before
  int width = 0;                            ///< matmul: columns of the weights; attention: query heads that share a key
  double share = 0;                         ///< roof time / time taken
};

/// Everything measured of one device, as stored in the cache file.
struct Ceilings {
  std::string library{};  ///< version of the library that measured
  std::string device{};   ///< kind, name and ISA of DeviceInfo
  std::string name{};
  std::string isa{};
  int threads = 1;
  std::vector<ThreadCeilings> at{};  ///< by rising number of threads: the device's among them, and what
                                     ///< else the process may use
  bool busy = false;                 ///< the rounds lay so far apart that something else was at work
  double op_overhead_s = 0;          ///< of an op however small, in a step; 0: not calibrated
  double step_overhead_s = 0;        ///< of a step, beside its ops
  double sample_s = 0;               ///< choosing a token greedily, per logit; 0: not calibrated
  std::vector<Efficiency> efficiencies{};

  /// With the device's threads. `at` must not be empty.
  const ThreadCeilings& all() const {
    for (const ThreadCeilings& t : at) {
      if (t.threads == threads) return t;
    }
    return at.back();
  }
};

struct CeilingsOptions {
  double seconds = 2;                   ///< about so long; 0.05 .. 60
  std::filesystem::path cache{};        ///< read if it is of this device, thread count and library version, else
                                        ///< written (also when weight types were added); empty: no file
  std::vector<WeightType> calibrate{};  ///< efficiencies of these weight types as well: some seconds more, and memory
                                        ///< of several times the last cache
};

/// Measures, or reads the cache. Memory's rate is that of 256 MiB to 1 GiB, by the size of the last cache. Errors:
/// unavailable (the device has no ceilings to measure; the file cannot be written), out_of_memory, invalid_argument. A
/// cache file that cannot be understood is measured anew.
LLMINFER_API Result<Ceilings> measure_ceilings(const Device& device, const CeilingsOptions& options = {});

/// Measures the efficiencies in `ceilings` anew, as they are now: other programs on a machine change them from minute
/// to minute. Roofs stay. Errors: as measure_ceilings; mismatch (measured on another device).
LLMINFER_API Result<void> calibrate_again(const Device& device, Ceilings& ceilings);

/// One line that says so if the machine was busy, else empty.
LLMINFER_API std::string warning(const Ceilings& ceilings);

}  // namespace v0
}  // namespace llminfer
