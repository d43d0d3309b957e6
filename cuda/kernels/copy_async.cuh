// Copies from global to shared memory that go on while the program does.
#pragma once

namespace llminfer::cuda {

/// 16 bytes, past the first cache.
__device__ inline void copy_async_16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))), "l"(global)
               : "memory");
}
/// The same, or 16 zero bytes.
__device__ inline void copy_async_16_or_zeros(void* shared, const void* global, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))), "l"(global), "r"(wanted ? 16 : 0)
               : "memory");
}
/// The thread's copies since the last call become a group.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Until all but the last `Groups` groups of the thread are done. Others' copies need a barrier behind that.
template <int Groups>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(Groups) : "memory");
}

}  // namespace llminfer::cuda
