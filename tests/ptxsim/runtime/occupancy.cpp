#include "runtime/occupancy.h"

#include <cuda_occupancy.h>

namespace ptxsim::runtime {
namespace {

cudaOccDeviceProp properties(const Chip& c) {
  cudaOccDeviceProp p;
  p.computeMajor = c.major;
  p.computeMinor = c.minor;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiprocessor = c.threads_per_multiprocessor;
  p.regsPerBlock = 65536;
  p.regsPerMultiprocessor = c.registers_per_multiprocessor;
  p.warpSize = 32;
  p.sharedMemPerBlock = 48 * 1024;
  p.sharedMemPerMultiprocessor = static_cast<std::size_t>(c.shared_per_multiprocessor);
  p.sharedMemPerBlockOptin = static_cast<std::size_t>(c.shared_per_block_optin);
  p.numSms = c.multiprocessors;
  p.reservedSharedMemPerBlock = 1024;
  return p;
}

}  // namespace

int blocks_per_multiprocessor(const Chip& chip, const KernelNeeds& kernel, int threads, std::size_t dynamic_shared) {
  const cudaOccDeviceProp p = properties(chip);
  cudaOccFuncAttributes a;
  a.maxThreadsPerBlock = 1024;
  a.numRegs = kernel.registers;
  a.sharedSizeBytes = kernel.static_shared;
  a.partitionedGCConfig = PARTITIONED_GC_OFF;
  a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  a.maxDynamicSharedSizeBytes = kernel.max_dynamic_shared;
  a.numBlockBarriers = 1;
  cudaOccDeviceState s;
  cudaOccResult r;
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &s, threads, dynamic_shared) != CUDA_OCC_SUCCESS) return 0;
  return r.activeBlocksPerMultiprocessor;
}

}  // namespace ptxsim::runtime
