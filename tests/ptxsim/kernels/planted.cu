// Kernels with one planted bug each, and their clean twins: bug_X and ok_X differ in what the bug is. Two at least a
// check. All have one signature: y and x have n floats, counter is one zero; blocks of 64 threads, two of them.
#define KERNEL extern "C" __global__ void
#define ARGUMENTS (float* y, const float* x, int* counter, int n)

__device__ int here() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

// --- bounds
template <bool Bug>
__device__ void overrun(float* y, const float* x, int n) {
  const int i = here() + (Bug ? 1 : 0);
  if (i < n + (Bug ? 1 : 0)) y[i] = x[i];
}
KERNEL bug_bounds_overrun ARGUMENTS { overrun<true>(y, x, n); }
KERNEL ok_bounds_overrun ARGUMENTS { overrun<false>(y, x, n); }

template <int Size>
__device__ void shared_overrun(float* y, const float* x) {
  __shared__ float s[Size];
  s[threadIdx.x] = x[here()];
  __syncthreads();
  y[here()] = s[threadIdx.x ^ 1];
}
KERNEL bug_bounds_shared ARGUMENTS { shared_overrun<60>(y, x); }
KERNEL ok_bounds_shared ARGUMENTS { shared_overrun<64>(y, x); }

// --- alignment
template <int Shift>
__device__ void vector_load(float* y, const float* x) {
  if (threadIdx.x < 15) {
    const float4 v = *reinterpret_cast<const float4*>(x + 4 * threadIdx.x + Shift);
    y[here()] = v.x + v.y + v.z + v.w;
  }
}
KERNEL bug_alignment_global ARGUMENTS { vector_load<1>(y, x); }
KERNEL ok_alignment_global ARGUMENTS { vector_load<4>(y, x); }

template <int Shift>
__device__ void shared_pair(float* y, const float* x) {
  __shared__ float s[68];
  for (int i = static_cast<int>(threadIdx.x); i < 68; i += 64) s[i] = x[i];
  __syncthreads();
  const float2 v = *reinterpret_cast<const float2*>(s + (threadIdx.x & ~1U) + Shift);
  y[here()] = v.x + v.y;
}
KERNEL bug_alignment_shared ARGUMENTS { shared_pair<1>(y, x); }
KERNEL ok_alignment_shared ARGUMENTS { shared_pair<2>(y, x); }

// --- uninitialised
template <int Written>
__device__ void part_written(float* y, const float* x) {
  __shared__ float s[64];
  if (threadIdx.x < Written) s[threadIdx.x] = x[here()];
  __syncthreads();
  y[here()] = s[63 - threadIdx.x];
}
KERNEL bug_uninitialised_part ARGUMENTS { part_written<48>(y, x); }
KERNEL ok_uninitialised_part ARGUMENTS { part_written<64>(y, x); }

template <bool Zero>
__device__ void accumulate(float* y, const float* x) {
  __shared__ float s[64];
  if (Zero) s[threadIdx.x] = 0;
  s[threadIdx.x] += x[here()];
  y[here()] = s[threadIdx.x];
}
KERNEL bug_uninitialised_sum ARGUMENTS { accumulate<false>(y, x); }
KERNEL ok_uninitialised_sum ARGUMENTS { accumulate<true>(y, x); }

// --- shared races
template <bool First, bool Second>
__device__ void mirror_twice(float* y, const float* x) {
  __shared__ float s[64];
  float sum = 0;
  s[threadIdx.x] = x[here()];
  __syncthreads();
  sum += s[63 - threadIdx.x];
  if (First) __syncthreads();
  s[threadIdx.x] = 2 * x[here()];
  if (Second) __syncthreads();
  sum += s[63 - threadIdx.x];
  y[here()] = sum;
}
KERNEL bug_shared_race_write_after_read ARGUMENTS { mirror_twice<false, true>(y, x); }
KERNEL ok_shared_race_write_after_read ARGUMENTS { mirror_twice<true, true>(y, x); }
KERNEL bug_shared_race_read_after_write ARGUMENTS { mirror_twice<true, false>(y, x); }
KERNEL ok_shared_race_read_after_write ARGUMENTS { mirror_twice<true, true>(y, x); }

/// Neighbours of one warp, without a barrier of the block.
template <bool Sync>
__device__ void neighbours(float* y, const float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[here()];
  if (Sync) __syncwarp();
  y[here()] = s[threadIdx.x ^ 1];
}
KERNEL bug_shared_race_in_warp ARGUMENTS { neighbours<false>(y, x); }
KERNEL ok_shared_race_in_warp ARGUMENTS { neighbours<true>(y, x); }

/// Halves of words written by different warps are no race.
template <int Shift>
__device__ void halves(float* y, const float* x) {
  __shared__ unsigned short s[132];
  const unsigned t = threadIdx.x;
  s[(t & 31) * 2 + (t / 32) * (1 - Shift)] = static_cast<unsigned short>(x[here()]);
  __syncthreads();
  y[here()] = s[(t & 31) * 2];
}
KERNEL bug_shared_race_halves ARGUMENTS { halves<1>(y, x); }
KERNEL ok_shared_race_halves ARGUMENTS { halves<0>(y, x); }

template <bool Wait>
__device__ void async_copy(float* y, const float* x) {
  __shared__ __align__(16) float s[2][64];
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&s[0][0]));
  if (threadIdx.x < 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 16 * threadIdx.x), "l"(x + 4 * threadIdx.x));
  }
  asm volatile("cp.async.commit_group;");
  if (threadIdx.x < 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 256 + 16 * threadIdx.x),
                 "l"(x + 4 * threadIdx.x));
  }
  asm volatile("cp.async.commit_group;");
  if (Wait) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
  } else {
    asm volatile("cp.async.wait_group 1;" ::: "memory");  // the second copy may still be under way
  }
  __syncthreads();
  y[here()] = s[0][63 - threadIdx.x] + s[1][threadIdx.x];
}
KERNEL bug_shared_race_copy ARGUMENTS { async_copy<false>(y, x); }
KERNEL ok_shared_race_copy ARGUMENTS { async_copy<true>(y, x); }

// --- global races
KERNEL bug_global_race_neighbour ARGUMENTS {
  y[here()] = x[here()];
  __syncthreads();
  if (here() + 64 < n) y[here()] += y[here() + 64];
}
KERNEL ok_global_race_neighbour ARGUMENTS {
  y[here()] = x[here()];
  __syncthreads();
  if (threadIdx.x < 32) y[here()] += y[here() ^ 63];
}

/// The last block adds what both wrote.
template <bool Fence>
__device__ void last_adds(float* y, const float* x, int* counter) {
  __shared__ int ticket;
  y[here()] = x[here()];
  if (Fence) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) ticket = atomicAdd(counter, 1);
  __syncthreads();
  if (ticket == 1) {
    __threadfence();
    y[threadIdx.x] = y[threadIdx.x] + y[threadIdx.x + 64];
  }
}
KERNEL bug_global_race_fence ARGUMENTS { last_adds<false>(y, x, counter); }
KERNEL ok_global_race_fence ARGUMENTS { last_adds<true>(y, x, counter); }

// --- barriers
KERNEL bug_barrier_lanes ARGUMENTS {
  if (threadIdx.x % 32 < 16) __syncthreads();
  y[here()] = x[here()];
}
KERNEL ok_barrier_lanes ARGUMENTS {
  __syncthreads();
  y[here()] = x[here()];
}
KERNEL bug_barrier_two ARGUMENTS {
  if (threadIdx.x < 32) {
    y[here()] = 1;
    __syncthreads();
  } else {
    __syncthreads();
    y[here()] = x[here()];
  }
}
KERNEL ok_barrier_two ARGUMENTS {
  if (threadIdx.x < 32) y[here()] = 1;
  __syncthreads();
  if (threadIdx.x >= 32) y[here()] = x[here()];
}

// --- masks
KERNEL bug_sync_mask_absent ARGUMENTS {
  float v = x[here()];
  if (threadIdx.x % 32 < 16) v += __shfl_xor_sync(0xffffffffU, v, 1);
  y[here()] = v;
}
KERNEL ok_sync_mask_absent ARGUMENTS {
  float v = x[here()];
  if (threadIdx.x % 32 < 16) v += __shfl_xor_sync(0x0000ffffU, v, 1);
  y[here()] = v;
}
KERNEL bug_sync_mask_self ARGUMENTS {
  const unsigned all = __ballot_sync(0x7fffffffU, x[here()] > 0);
  y[here()] = static_cast<float>(all);
}
KERNEL ok_sync_mask_self ARGUMENTS {
  const unsigned all = __ballot_sync(0xffffffffU, x[here()] > 0);
  y[here()] = static_cast<float>(all);
}

// --- deadlocks
template <int Threads>
__device__ void named(float* y, const float* x) {
  asm volatile("bar.sync 1, %0;" ::"n"(Threads) : "memory");
  y[here()] = x[here()];
}
KERNEL bug_deadlock_count ARGUMENTS { named<96>(y, x); }
KERNEL ok_deadlock_count ARGUMENTS { named<64>(y, x); }

template <int Other>
__device__ void two_ids(float* y, const float* x) {
  if (threadIdx.x < 32) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
  } else {
    asm volatile("bar.sync %0, 64;" ::"n"(Other) : "memory");
  }
  y[here()] = x[here()];
}
KERNEL bug_deadlock_ids ARGUMENTS { two_ids<2>(y, x); }
KERNEL ok_deadlock_ids ARGUMENTS { two_ids<1>(y, x); }

/// The first block waits for the second, which comes along only where both are resident.
KERNEL spin_for_other_block ARGUMENTS {
  if (blockIdx.x == 1) {
    if (threadIdx.x == 0) atomicExch(counter, 1);
  } else if (threadIdx.x == 0) {
    while (atomicAdd(counter, 0) == 0) {
    }
  }
  y[here()] = x[here()];
}
