// Devices, versions and errors.
#include <cstring>

#include "runtime/state.h"

using namespace ptxsim;           // NOLINT(google-build-using-namespace): C functions
using namespace ptxsim::runtime;  // NOLINT(google-build-using-namespace)

extern "C" {

cudaError_t cudaGetDeviceCount(int* n) {
  *n = 1;
  return done(cudaSuccess);
}
cudaError_t cudaSetDevice(int index) { return done(index == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaGetDevice(int* index) {
  *index = 0;
  return done(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int index) {
  if (index != 0) return done(cudaErrorInvalidDevice);
  const Chip& c = state().device.chip;
  *p = {};
  std::strncpy(p->name, c.name, sizeof(p->name) - 1);
  p->totalGlobalMem = c.memory;
  p->sharedMemPerBlock = 48 * 1024;
  p->regsPerBlock = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->major = c.major;
  p->minor = c.minor;
  p->multiProcessorCount = c.multiprocessors;
  p->maxThreadsPerMultiProcessor = c.threads_per_multiprocessor;
  p->sharedMemPerMultiprocessor = static_cast<std::size_t>(c.shared_per_multiprocessor);
  p->regsPerMultiprocessor = c.registers_per_multiprocessor;
  p->sharedMemPerBlockOptin = static_cast<std::size_t>(c.shared_per_block_optin);
  return done(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  if (index != 0) return done(cudaErrorInvalidDevice);
  const Chip& c = state().device.chip;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = c.multiprocessors;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = c.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = c.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = c.shared_per_block_optin;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = c.shared_per_multiprocessor;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = c.threads_per_multiprocessor;
      break;
    case cudaDevAttrClusterLaunch:
      *value = c.major >= 9 ? 1 : 0;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    default:
      return done(cudaErrorInvalidValue);
  }
  return done(cudaSuccess);
}

cudaError_t cudaRuntimeGetVersion(int* v) {
  *v = CUDART_VERSION;
  return done(cudaSuccess);
}
cudaError_t cudaDriverGetVersion(int* v) { return cudaRuntimeGetVersion(v); }

cudaError_t cudaGetLastError() {
  const cudaError_t e = state().last;
  state().last = state().sticky;
  return e;
}
cudaError_t cudaPeekAtLastError() { return state().last; }

const char* cudaGetErrorString(cudaError_t e) {
  switch (e) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDeviceFunction:
      return "invalid device function";
    default:
      return "another error";
  }
}
const char* cudaGetErrorName(cudaError_t e) { return cudaGetErrorString(e); }

}  // extern "C"
