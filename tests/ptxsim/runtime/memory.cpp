// Memory and copies.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/state.h"

using namespace ptxsim;           // NOLINT(google-build-using-namespace): C functions
using namespace ptxsim::runtime;  // NOLINT(google-build-using-namespace)

namespace {

bool injected_failure() {
  int& n = state().device.fail_allocation;
  return n > 0 && --n == 0;
}

/// A device pointer must lie in one allocation; other memory is the host's.
bool valid(const void* p, std::size_t bytes, bool device) {
  return !device || bytes == 0 || state().memory.contains(reinterpret_cast<std::uint64_t>(p), bytes);
}

bool pinned(const void* p, std::size_t bytes) {
  const auto& all = state().host_memory;
  auto it = all.upper_bound(const_cast<void*>(p));
  if (it == all.begin()) return false;
  --it;
  const auto* first = static_cast<const std::byte*>(it->first);
  return static_cast<const std::byte*>(p) + bytes <= first + it->second;
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (!valid(to, bytes, to_device) || !valid(from, bytes, from_device)) return done(cudaErrorInvalidValue);
  ++state().device.calls.copies;
  return done(enqueue(stream, [=] {
    state().behind_launch = false;
    if (bytes != 0) std::memmove(to, from, bytes);
    return cudaSuccess;
  }));
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  const std::lock_guard lock(state().mutex);
  if (done(cudaSuccess) != cudaSuccess) return state().sticky;
  ++state().device.calls.allocations;
  state().memory.set_limit(state().device.chip.memory);
  *out = injected_failure() ? nullptr : state().memory.allocate(bytes);
  return done(*out != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* p) {
  const std::lock_guard lock(state().mutex);
  if (p == nullptr) return done(cudaSuccess);
  return done(state().memory.release(p) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMallocAsync(void** out, std::size_t bytes, cudaStream_t) { return cudaMalloc(out, bytes); }
cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return cudaFree(p); }

cudaError_t cudaMallocHost(void** out, std::size_t bytes) {
  const std::lock_guard lock(state().mutex);
  ++state().device.calls.allocations;
  *out = injected_failure() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (*out == nullptr) return done(cudaErrorMemoryAllocation);
  state().host_memory[*out] = bytes;
  return done(cudaSuccess);
}
cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned) { return cudaMallocHost(out, bytes); }
cudaError_t cudaFreeHost(void* p) {
  const std::lock_guard lock(state().mutex);
  if (p == nullptr) return done(cudaSuccess);
  if (state().host_memory.erase(p) == 0) return done(cudaErrorInvalidValue);
  std::free(p);
  return done(cudaSuccess);
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const std::lock_guard lock(state().mutex);
  ++state().device.calls.blocking;
  return copy(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  // The real runtime takes its time for memory that it has to copy to pinned memory first.
  const bool to_host = kind == cudaMemcpyDeviceToHost, from_host = kind == cudaMemcpyHostToDevice;
  if ((to_host && !pinned(to, bytes)) || (from_host && !pinned(from, bytes))) ++state().device.calls.blocking;
  return copy(to, from, bytes, kind, stream);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  if (!valid(to, bytes, true)) return done(cudaErrorInvalidValue);
  return done(enqueue(stream, [=] {
    state().behind_launch = false;
    if (bytes != 0) std::memset(to, value, bytes);
    return cudaSuccess;
  }));
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) { return cudaMemsetAsync(to, value, bytes, nullptr); }

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(state().mutex);
  *total = state().device.chip.memory;
  *free = *total - std::min(*total, state().memory.used());
  return done(cudaSuccess);
}

}  // extern "C"
