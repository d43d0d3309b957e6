// Planted bugs of blocks of a cluster that reach each other's shared memory, and their clean twins: see planted.cu.
// Blocks of 64 threads; the two of them are a cluster.
#define KERNEL extern "C" __global__ void
#define ARGUMENTS (float* y, const float* x, int* counter, int n)

namespace {

__device__ int here() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }
__device__ unsigned rank() {
  unsigned r;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
__device__ void arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ void wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
__device__ void meet() {
  arrive();
  wait();
}
__device__ unsigned map(const float* p, unsigned of) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(there)
      : "r"(static_cast<unsigned>(__cvta_generic_to_shared(p))), "r"(of));
  return there;
}
__device__ float load(const float* p, unsigned of) {
  float v;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(map(p, of)) : "memory");
  return v;
}
__device__ void store(const float* p, unsigned of, float v) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(map(p, of)), "f"(v) : "memory");
}
/// By a generic address.
__device__ float load_generic(float* p, unsigned of) {
  unsigned long long there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(of));
  return *reinterpret_cast<const volatile float*>(there);
}

}  // namespace

// --- cluster: blocks that have ended, have not begun, or are none
template <bool Begins, bool Ends>
__device__ void other_half(float* y, const float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[here()];
  if (Begins) meet();
  y[here()] = load(s + threadIdx.x, rank() ^ 1U);
  if (Ends) meet();
}
KERNEL bug_cluster_begin ARGUMENTS { other_half<false, true>(y, x); }
KERNEL ok_cluster_begin ARGUMENTS { other_half<true, true>(y, x); }
KERNEL bug_cluster_end ARGUMENTS { other_half<true, false>(y, x); }
KERNEL ok_cluster_end ARGUMENTS { other_half<true, true>(y, x); }

/// One block only writes to the other.
template <bool Ends>
__device__ void give(float* y, const float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = 0;
  meet();
  if (rank() == 1) store(s + threadIdx.x, 0, x[here()]);
  if (Ends) {
    meet();
    y[here()] = s[threadIdx.x];
  }
}
KERNEL bug_cluster_end_of_written ARGUMENTS { give<false>(y, x); }
KERNEL ok_cluster_end_of_written ARGUMENTS { give<true>(y, x); }

template <int Rank>
__device__ void from_rank(float* y, const float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[here()];
  meet();
  y[here()] = load(s + threadIdx.x, Rank);
  meet();
}
KERNEL bug_cluster_rank ARGUMENTS { from_rank<2>(y, x); }
KERNEL ok_cluster_rank ARGUMENTS { from_rank<1>(y, x); }

// --- bounds
template <int Beyond>
__device__ void beyond(float* y, const float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[here()];
  meet();
  y[here()] = load(s + threadIdx.x + Beyond, rank() ^ 1U);
  meet();
}
KERNEL bug_bounds_cluster_load ARGUMENTS { beyond<1>(y, x); }
KERNEL ok_bounds_cluster_load ARGUMENTS { beyond<0>(y, x); }

template <int Beyond>
__device__ void store_beyond(float* y, const float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = 0;
  meet();
  store(s + threadIdx.x + Beyond, rank() ^ 1U, x[here()]);
  meet();
  y[here()] = s[threadIdx.x];
}
KERNEL bug_bounds_cluster_store ARGUMENTS { store_beyond<4>(y, x); }
KERNEL ok_bounds_cluster_store ARGUMENTS { store_beyond<0>(y, x); }

// --- uninitialised
template <int Written, bool Generic>
__device__ void part(float* y, const float* x) {
  __shared__ float s[64];
  if (threadIdx.x < Written) s[threadIdx.x] = x[here()];
  meet();
  y[here()] = Generic ? load_generic(s + threadIdx.x, rank() ^ 1U) : load(s + threadIdx.x, rank() ^ 1U);
  meet();
}
KERNEL bug_uninitialised_cluster ARGUMENTS { part<48, false>(y, x); }
KERNEL ok_uninitialised_cluster ARGUMENTS { part<64, false>(y, x); }
KERNEL ok_uninitialised_cluster_generic ARGUMENTS { part<64, true>(y, x); }

/// The other block writes half of the words that this one reads.
template <int Written>
__device__ void half_given(float* y, const float* x) {
  __shared__ float s[64];
  meet();
  if (threadIdx.x < Written) store(s + threadIdx.x, rank() ^ 1U, x[here()]);
  meet();
  y[here()] = s[threadIdx.x];
}
KERNEL bug_uninitialised_cluster_given ARGUMENTS { half_given<32>(y, x); }
KERNEL ok_uninitialised_cluster_given ARGUMENTS { half_given<64>(y, x); }

// --- shared races between blocks
template <bool First, bool Second>
__device__ void twice(float* y, const float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[here()];
  meet();
  float sum = load(s + threadIdx.x, rank() ^ 1U);
  if (First) meet();
  s[threadIdx.x] = 2 * x[here()];
  if (Second) meet();
  sum += load(s + threadIdx.x, rank() ^ 1U);
  meet();
  y[here()] = sum;
}
KERNEL bug_shared_race_cluster_write_after_read ARGUMENTS { twice<false, true>(y, x); }
KERNEL bug_shared_race_cluster_read_after_write ARGUMENTS { twice<true, false>(y, x); }
KERNEL ok_shared_race_cluster ARGUMENTS { twice<true, true>(y, x); }

/// Arriving orders what was done before, waiting what is done behind.
template <bool Late>
__device__ void between(float* y, const float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = 0;
  meet();
  if (!Late) s[threadIdx.x] = x[here()];
  arrive();
  if (Late) s[threadIdx.x] = x[here()];
  wait();
  y[here()] = load(s + threadIdx.x, rank() ^ 1U);
  meet();
}
KERNEL bug_shared_race_cluster_arrived ARGUMENTS { between<true>(y, x); }
KERNEL ok_shared_race_cluster_arrived ARGUMENTS { between<false>(y, x); }

template <bool Meets>
__device__ void one_then_other(float* y, const float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = 0;
  meet();
  if (rank() == 0) store(s + threadIdx.x, 0, x[here()]);
  if (Meets) meet();
  if (rank() == 1) store(s + threadIdx.x, 0, x[here()]);
  meet();
  y[here()] = s[threadIdx.x];
}
KERNEL bug_shared_race_cluster_one_then_other ARGUMENTS { one_then_other<false>(y, x); }
KERNEL ok_shared_race_cluster_one_then_other ARGUMENTS { one_then_other<true>(y, x); }

/// The barrier of the cluster is one of the block too.
template <bool Waits>
__device__ void own_block(float* y, const float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[here()];
  arrive();
  if (Waits) wait();
  y[here()] = s[63 - threadIdx.x];
  if (!Waits) wait();
}
KERNEL bug_shared_race_cluster_own_block ARGUMENTS { own_block<false>(y, x); }
KERNEL ok_shared_race_cluster_own_block ARGUMENTS { own_block<true>(y, x); }

// --- global races: an earlier barrier orders nothing that comes behind it
template <bool Again>
__device__ void by_global(float* y, const float* x) {
  y[here()] = x[here()];
  meet();
  y[here()] = 2 * x[here()];
  if (Again) meet();
  const float v = __ldcg(y + (here() ^ 64));
  meet();
  y[here()] = v;
}
KERNEL bug_global_race_cluster ARGUMENTS { by_global<false>(y, x); }
KERNEL ok_global_race_cluster ARGUMENTS { by_global<true>(y, x); }

template <bool Between>
__device__ void in_turn(float* y, const float* x) {
  meet();
  if (rank() == 0) y[threadIdx.x] = x[here()];
  if (Between) meet();
  if (rank() == 1) y[threadIdx.x] = x[here()];
}
KERNEL bug_global_race_cluster_writes ARGUMENTS { in_turn<false>(y, x); }
KERNEL ok_global_race_cluster_writes ARGUMENTS { in_turn<true>(y, x); }

// --- barriers of the cluster
template <int Arrivals, int Waits>
__device__ void unequal(float* y, const float* x) {
  for (int i = 0; i < Arrivals; ++i) arrive();
  for (int i = 0; i < Waits; ++i) wait();
  y[here()] = x[here()];
}
KERNEL bug_barrier_cluster_arrives_twice ARGUMENTS { unequal<2, 1>(y, x); }
KERNEL bug_barrier_cluster_never_arrived ARGUMENTS { unequal<0, 1>(y, x); }
KERNEL bug_barrier_cluster_waits_twice ARGUMENTS { unequal<1, 2>(y, x); }
KERNEL ok_barrier_cluster ARGUMENTS { unequal<1, 1>(y, x); }

template <int Lanes>
__device__ void by_lanes(float* y, const float* x) {
  if (threadIdx.x % 32 < Lanes) arrive();
  __syncwarp();
  if (threadIdx.x % 32 < Lanes) wait();
  y[here()] = x[here()];
}
KERNEL bug_barrier_cluster_part_of_warp ARGUMENTS { by_lanes<16>(y, x); }
KERNEL ok_barrier_cluster_part_of_warp ARGUMENTS { by_lanes<32>(y, x); }

// --- deadlocks
/// The warps of the second block wait for each other.
template <bool Crossed>
__device__ void crossed(float* y, const float* x) {
  const bool first = threadIdx.x < 32 || rank() == 0 || !Crossed;
  if (first) __syncthreads();
  meet();
  if (!first) __syncthreads();
  y[here()] = x[here()];
}
KERNEL bug_deadlock_cluster_crossed ARGUMENTS { crossed<true>(y, x); }
KERNEL ok_deadlock_cluster_crossed ARGUMENTS { crossed<false>(y, x); }

/// A warp of the second block waits for more than there are.
template <int Threads>
__device__ void never(float* y, const float* x) {
  if (rank() == 1) asm volatile("bar.sync 1, %0;" ::"n"(Threads) : "memory");
  meet();
  y[here()] = x[here()];
}
KERNEL bug_deadlock_cluster_other_block ARGUMENTS { never<128>(y, x); }
KERNEL ok_deadlock_cluster_other_block ARGUMENTS { never<64>(y, x); }

/// Threads that have ended are not waited for.
KERNEL ok_deadlock_cluster_ended ARGUMENTS {
  y[here()] = x[here()];
  if (rank() == 1) return;
  meet();
}
