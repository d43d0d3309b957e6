// cudaLaunchKernel and what belongs to kernels: attributes, occupancy.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/occupancy.h"
#include "runtime/state.h"

using namespace ptxsim;           // NOLINT(google-build-using-namespace): C functions
using namespace ptxsim::runtime;  // NOLINT(google-build-using-namespace)

namespace {

Dim3 convert(dim3 d) { return {d.x, d.y, d.z}; }

/// Registers of a thread are ptxas's business: what the launch bounds allow is assumed.
int registers_of(const Kernel& k) { return k.max_threads > 512 ? 64 : 128; }

int blocks_of(const Function& f, int threads, std::size_t shared) {
  return blocks_per_multiprocessor(
      state().device.chip,
      {registers_of(*f.kernel), f.kernel->shared_bytes, static_cast<std::size_t>(f.max_dynamic_shared)}, threads,
      shared);
}

Function* function_of(const void* stub) {
  const auto it = state().functions.find(stub);
  return it == state().functions.end() || it->second.kernel == nullptr ? nullptr : &it->second;
}

std::vector<std::byte> copy_parameters(const Kernel& k, void** args) {
  std::vector<std::byte> out(k.parameter_bytes);
  for (std::size_t n = 0; n < k.parameters.size(); ++n) {
    std::memcpy(out.data() + k.parameters[n].offset, args[n], k.parameters[n].bytes);
  }
  return out;
}

/// `early`: as the attribute of programmatic stream serialization allows.
cudaError_t run(const Function& f, dim3 grid, dim3 block, std::size_t shared, const std::vector<std::byte>& parameters,
                bool early) {
  State& s = state();
  const LaunchConfig config{convert(grid), convert(block), static_cast<std::uint32_t>(shared)};
  Options options = s.device.options;
  const int per_one = blocks_of(f, static_cast<int>(config.block.count()), shared);
  options.early = early && s.behind_launch;
  s.behind_launch = true;
  options.resident_blocks = std::max(1, per_one * s.device.chip.multiprocessors);
  const auto start = std::chrono::steady_clock::now();
  LaunchResult result = launch(*f.kernel, config, parameters, s.memory, s.tracker, options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  s.device.calls.seconds += seconds;
  s.device.calls.lane_instructions += result.counters.lane_instructions;
  ++s.device.calls.launches;
  for (Finding& found : result.findings) s.device.findings.push_back(std::move(found));
  if (s.device.record_launches)
    s.device.launches.push_back({f.kernel->name, config, std::move(result.counters), seconds});
  if (!result.completed) s.sticky = cudaErrorLaunchFailure;
  return done(result.completed ? cudaSuccess : cudaErrorLaunchFailure);
}

cudaError_t launch_kernel(const void* stub, dim3 grid, dim3 block, void** args, std::size_t shared, cudaStream_t stream,
                          bool early) {
  const std::lock_guard lock(state().mutex);
  const Function* f = function_of(stub);
  if (f == nullptr) return done(cudaErrorInvalidDeviceFunction);
  const auto limit = static_cast<std::size_t>(state().device.chip.shared_per_block_optin);
  if (shared > static_cast<std::size_t>(f->max_dynamic_shared) || shared + f->kernel->shared_bytes > limit) {
    return done(cudaErrorInvalidValue);
  }
  const std::uint64_t threads = convert(block).count();
  if (threads == 0 || threads > 1024 || convert(grid).count() == 0) return done(cudaErrorInvalidConfiguration);
  return done(enqueue(stream, [f, grid, block, shared, early, parameters = copy_parameters(*f->kernel, args)] {
    return run(*f, grid, block, shared, parameters, early);
  }));
}

}  // namespace

extern "C" {

cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** args, std::size_t shared,
                             cudaStream_t stream) {
  return launch_kernel(stub, grid, block, args, shared, stream, false);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub, void** args) {
  bool early = false;
  for (unsigned n = 0; n < config->numAttrs; ++n) {
    const cudaLaunchAttribute& a = config->attrs[n];
    if (a.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      early = a.val.programmaticStreamSerializationAllowed != 0;
    }
  }
  return launch_kernel(stub, config->gridDim, config->blockDim, args, config->dynamicSmemBytes, config->stream, early);
}

cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute attribute, int value) {
  const std::lock_guard lock(state().mutex);
  Function* f = function_of(stub);
  if (f == nullptr) return done(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    const int limit = state().device.chip.shared_per_block_optin - static_cast<int>(f->kernel->shared_bytes);
    if (value < 0 || value > limit) return done(cudaErrorInvalidValue);
    f->max_dynamic_shared = value;
  }
  return done(cudaSuccess);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* stub) {
  const std::lock_guard lock(state().mutex);
  const Function* f = function_of(stub);
  if (f == nullptr) return done(cudaErrorInvalidDeviceFunction);
  *out = {};
  out->sharedSizeBytes = f->kernel->shared_bytes;
  out->localSizeBytes = f->kernel->local_bytes;
  out->maxThreadsPerBlock = f->kernel->max_threads != 0 ? static_cast<int>(f->kernel->max_threads) : 1024;
  out->numRegs = registers_of(*f->kernel);
  out->maxDynamicSharedSizeBytes = f->max_dynamic_shared;
  return done(cudaSuccess);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* stub, int threads,
                                                                   std::size_t shared, unsigned) {
  const std::lock_guard lock(state().mutex);
  const Function* f = function_of(stub);
  if (f == nullptr) return done(cudaErrorInvalidDeviceFunction);
  *blocks = blocks_of(*f, threads, shared);
  return done(cudaSuccess);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* stub, int threads,
                                                          std::size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, stub, threads, shared, 0);
}

}  // extern "C"
