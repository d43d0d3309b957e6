// What the stand-in's functions share.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "interpreter/device_memory.h"
#include "interpreter/global_tracker.h"
#include "interpreter/module.h"
#include "runtime/device.h"

namespace ptxsim::runtime {

/// What a fat binary has for chips of compute capability 9.0 on, beside the PTX of all: parsed when it is asked for.
struct NewerModule {
  std::string_view ptx{};
  std::unique_ptr<Module> module{};
};

/// A kernel as the host knows it: by the address of its stub.
struct Function {
  const Kernel* kernel = nullptr;  ///< of all chips
  NewerModule* newer = nullptr;    ///< or null
  int max_dynamic_shared = 48 * 1024;

  /// For this chip.
  const Kernel& on(const Chip& chip) const;
};

/// A fat binary.
struct LoadedBinary {
  Module module{};
  NewerModule newer{};
};

/// Work in order. Capturing, it is kept instead of done.
struct Stream {
  std::vector<std::function<cudaError_t()>>* capture = nullptr;
};

struct Graph {
  std::vector<std::function<cudaError_t()>> nodes{};
};

struct State {
  std::recursive_mutex mutex{};
  SimulatedDevice device{};
  DeviceMemory memory{};
  GlobalTracker tracker{};
  std::vector<std::unique_ptr<LoadedBinary>> binaries{};
  std::map<const void*, Function> functions{};
  std::map<void*, std::size_t> host_memory{};
  cudaError_t last = cudaSuccess;
  cudaError_t sticky = cudaSuccess;
  int device_index = 0;
  bool behind_launch = false;  ///< the last thing that was done is a launch
};

State& state();

/// Remembers an error for cudaGetLastError and returns it; a device that is lost fails everything.
cudaError_t done(cudaError_t error);

/// Does the work now, or keeps it where the stream is being captured.
cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work);

cudaError_t run_kernel(const void* function, dim3 grid, dim3 block, std::size_t shared,
                       std::vector<std::byte> parameters);

}  // namespace ptxsim::runtime
