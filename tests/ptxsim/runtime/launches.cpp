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

/// Of the simulated chip.
const Kernel& kernel_of(const Function& f) { return f.on(state().device.chip); }

int blocks_of(const Function& f, int threads, std::size_t shared) {
  const Kernel& k = kernel_of(f);
  const KernelNeeds needs{registers_of(k), k.shared_bytes, static_cast<std::size_t>(f.max_dynamic_shared)};
  return blocks_per_multiprocessor(state().device.chip, needs, threads, shared);
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

/// What a launch is told beside its kernel.
struct Call {
  dim3 grid{}, block{};
  std::size_t shared = 0;
  dim3 cluster{};
  bool early = false;  ///< the attribute of programmatic stream serialization
};

cudaError_t run(const Function& f, const Call& call, const std::vector<std::byte>& parameters) {
  State& s = state();
  const std::size_t shared = call.shared;
  const LaunchConfig config{convert(call.grid), convert(call.block), static_cast<std::uint32_t>(shared),
                            convert(call.cluster)};
  Options options = s.device.options;
  const int per_one = blocks_of(f, static_cast<int>(config.block.count()), shared);
  options.early = call.early && s.behind_launch;
  s.behind_launch = true;
  options.resident_blocks = std::max(1, per_one * s.device.chip.multiprocessors);
  const auto start = std::chrono::steady_clock::now();
  const Kernel& kernel = kernel_of(f);
  LaunchResult result = launch(kernel, config, parameters, s.memory, s.tracker, options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  s.device.calls.seconds += seconds;
  s.device.calls.lane_instructions += result.counters.lane_instructions;
  ++s.device.calls.launches;
  for (Finding& found : result.findings) s.device.findings.push_back(std::move(found));
  if (s.device.record_launches) s.device.launches.push_back({kernel.name, config, std::move(result.counters), seconds});
  if (!result.completed) s.sticky = cudaErrorLaunchFailure;
  return done(result.completed ? cudaSuccess : cudaErrorLaunchFailure);
}

/// Clusters are of 9.0 and later.
bool takes_cluster(const Chip& chip, const Call& call) {
  const Dim3 grid = convert(call.grid), of = convert(call.cluster);
  if (of.count() == 1) return true;
  if (chip.major < 9 || of.count() == 0 || of.count() > max_cluster) return false;
  return grid.x % of.x == 0 && grid.y % of.y == 0 && grid.z % of.z == 0;
}

cudaError_t launch_kernel(const void* stub, const Call& call, void** args, cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  const Function* f = function_of(stub);
  if (f == nullptr) return done(cudaErrorInvalidDeviceFunction);
  const Chip& chip = state().device.chip;
  const Kernel& kernel = kernel_of(*f);
  const auto limit = static_cast<std::size_t>(chip.shared_per_block_optin);
  if (call.shared > static_cast<std::size_t>(f->max_dynamic_shared) || call.shared + kernel.shared_bytes > limit) {
    return done(cudaErrorInvalidValue);
  }
  const std::uint64_t threads = convert(call.block).count();
  if (threads == 0 || threads > 1024 || convert(call.grid).count() == 0) return done(cudaErrorInvalidConfiguration);
  if (!takes_cluster(chip, call)) return done(cudaErrorInvalidClusterSize);
  return done(
      enqueue(stream, [f, call, parameters = copy_parameters(kernel, args)] { return run(*f, call, parameters); }));
}

}  // namespace

extern "C" {

cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** args, std::size_t shared,
                             cudaStream_t stream) {
  return launch_kernel(stub, {grid, block, shared}, args, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub, void** args) {
  Call call{config->gridDim, config->blockDim, config->dynamicSmemBytes};
  for (unsigned n = 0; n < config->numAttrs; ++n) {
    const cudaLaunchAttribute& a = config->attrs[n];
    if (a.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      call.early = a.val.programmaticStreamSerializationAllowed != 0;
    }
    if (a.id == cudaLaunchAttributeClusterDimension) {
      call.cluster = dim3(a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z);
    }
  }
  return launch_kernel(stub, call, args, config->stream);
}

cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute attribute, int value) {
  const std::lock_guard lock(state().mutex);
  Function* f = function_of(stub);
  if (f == nullptr) return done(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    const int limit = state().device.chip.shared_per_block_optin - static_cast<int>(kernel_of(*f).shared_bytes);
    if (value < 0 || value > limit) return done(cudaErrorInvalidValue);
    f->max_dynamic_shared = value;
  }
  return done(cudaSuccess);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* stub) {
  const std::lock_guard lock(state().mutex);
  const Function* f = function_of(stub);
  if (f == nullptr) return done(cudaErrorInvalidDeviceFunction);
  const Kernel& kernel = kernel_of(*f);
  *out = {};
  out->sharedSizeBytes = kernel.shared_bytes;
  out->localSizeBytes = kernel.local_bytes;
  out->maxThreadsPerBlock = kernel.max_threads != 0 ? static_cast<int>(kernel.max_threads) : 1024;
  out->numRegs = registers_of(kernel);
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
