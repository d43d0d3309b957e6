// Blocks that leave something for the last of them.
#pragma once

namespace llminfer::cuda {

/// Whether this block is the last of `of` that come to `counter`: it sees what the others wrote before. Called by all
/// threads; the counter is zero before the launch and after it. Which block is the last is left to chance, so that what
/// it does must not depend on that. What others wrote is to be read from L2 (__ldcg): a line of L1 may be older.
__device__ inline bool arrives_last(unsigned* counter, unsigned of) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1U) + 1 == of;
    if (last) *counter = 0;  // for the next launch
    __threadfence();
  }
  __syncthreads();
  return last;
}

}  // namespace llminfer::cuda
