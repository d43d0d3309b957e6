// Where a model runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <llminfer/device_description.hpp>
#include <llminfer/device_info.hpp>
#include <llminfer/error.hpp>
#include <llminfer/export.hpp>

namespace llminfer {
inline namespace v0 {

namespace backend {
class Backend;
}

struct CpuOptions {
  int threads = 0;  ///< 1 .. 1024; 0: the cores that affinity and cgroup grant this process
  std::string isa =
      "auto";  ///< which kernels: "auto" (the best there is), "portable"; "avx2", "avxvnni", "avx512",
               ///< "avx512bf16", "amx"; "neon", "dotprod", "i8mm"; one that the processor lacks is Error unavailable.
               ///< "amx", by "auto" too, asks Linux for the tiles on behalf of the process (arch_prctl)
  bool huge_pages = true;  ///< ask for huge pages behind weights; ignored where there are none
};

/// (any thread) A device with its memory and threads. Copies share them; steps of models on one Device take turns.
/// Everything made with a Device keeps it alive.
class LLMINFER_API Device {
 public:
  /// The processor. Errors: invalid_argument, unavailable (threads or ISA).
  static Result<Device> cpu(CpuOptions options = {});
  /// Slow, single-threaded float32 arithmetic that the other devices are compared with.
  static Result<Device> reference();
  /// A device that computes nothing: its steps end at once, its tokens are a hash of `seed` and the history, weights
  /// are not read and no memory is taken. Model::plan_memory tells what the described device would hold; see also
  /// simulate().
  static Result<Device> simulated(const DeviceDescription& description, std::uint64_t seed = 0);
  /// A caller's own implementation of <llminfer/backend/backend.hpp>. Error: invalid_argument for null.
  static Result<Device> wrap(std::shared_ptr<backend::Backend> backend);

  Result<DeviceInfo> info() const;
  /// Bytes that everything on this device holds now.
  std::uint64_t memory_used() const noexcept;

  /// For the library's own use.
  const std::shared_ptr<backend::Backend>& backend() const noexcept { return backend_; }

 private:
  explicit Device(std::shared_ptr<backend::Backend> backend) noexcept;
  std::shared_ptr<backend::Backend> backend_;
};

}  // namespace v0
}  // namespace llminfer
