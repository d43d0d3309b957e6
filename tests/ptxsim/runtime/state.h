// What the stand-in's functions share.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "interpreter/device_memory.h"
#include "interpreter/global_tracker.h"
#include "interpreter/module.h"
#include "runtime/device.h"

namespace ptxsim::runtime {

/// A kernel as the host knows it: by the address of its stub.
struct Function {
  const Kernel* kernel = nullptr;
  int max_dynamic_shared = 48 * 1024;
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
  std::vector<std::unique_ptr<Module>> modules{};
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
