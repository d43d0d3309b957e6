// Planted bugs and clean twins as in planted.cu, of mbarriers, bulk copies and launches that begin early.
#define KERNEL extern "C" __global__ void
#define ARGUMENTS (float* y, const float* x, int* counter, int n)

__device__ int here() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }
template <class T>
__device__ unsigned shared_address(const T* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// An object for `count` arrivals; only the first thread makes it.
__device__ void make(const unsigned long long* object, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(object)), "r"(count) : "memory");
}
__device__ void arrive(const unsigned long long* object) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(object)) : "memory");
}
__device__ void arrive_expecting(const unsigned long long* object, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(object)), "r"(bytes)
               : "memory");
}
__device__ bool try_wait(const unsigned long long* object, int parity) {
  unsigned done = 0;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(done)
               : "r"(shared_address(object)), "r"(parity)
               : "memory");
  return done != 0;
}
__device__ void wait(const unsigned long long* object, int parity) {
  while (!try_wait(object, parity)) {
  }
}
__device__ void copy(const float* to, const float* from, int bytes, const unsigned long long* object) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(object))
               : "memory");
}

// --- bulk copies: the first thread asks, all wait and read. Where copies are early, nothing is wrong
// with bugs named late.
enum class Bug { none, no_wait, one_try, one_warp_waits, other_parity, bytes, place, outside, not_made, made_twice };

template <Bug B>
__device__ void bulk(float* y, const float* x) {
  __shared__ __align__(16) float s[72];
  __shared__ unsigned long long object;
  if (threadIdx.x == 0 && B != Bug::not_made) make(&object, 1);
  if (threadIdx.x == 0 && B == Bug::made_twice) make(&object, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    arrive_expecting(&object, B == Bug::bytes ? 512 : 256);
    copy(B == Bug::place ? s + 1 : s, x + 64 * blockIdx.x + (B == Bug::outside ? 96 : 0), 256, &object);
  }
  if (B == Bug::one_try) try_wait(&object, 0);
  const bool waits = B != Bug::no_wait && B != Bug::one_try && (B != Bug::one_warp_waits || threadIdx.x < 32);
  if (waits) wait(&object, B == Bug::other_parity ? 1 : 0);
  y[here()] = s[63 - threadIdx.x];
}
KERNEL bug_shared_race_bulk_no_wait ARGUMENTS { bulk<Bug::no_wait>(y, x); }
KERNEL ok_shared_race_bulk_no_wait ARGUMENTS { bulk<Bug::none>(y, x); }
KERNEL bug_shared_race_late_one_try ARGUMENTS { bulk<Bug::one_try>(y, x); }
KERNEL bug_shared_race_bulk_one_warp ARGUMENTS { bulk<Bug::one_warp_waits>(y, x); }
KERNEL bug_shared_race_bulk_parity ARGUMENTS { bulk<Bug::other_parity>(y, x); }
KERNEL bug_deadlock_bulk_bytes ARGUMENTS { bulk<Bug::bytes>(y, x); }
KERNEL bug_alignment_bulk ARGUMENTS { bulk<Bug::place>(y, x); }
KERNEL bug_bounds_bulk ARGUMENTS { bulk<Bug::outside>(y, x); }
KERNEL bug_mbarrier_not_made ARGUMENTS { bulk<Bug::not_made>(y, x); }
KERNEL bug_mbarrier_made_twice ARGUMENTS { bulk<Bug::made_twice>(y, x); }

/// Nobody wants what the copy brings.
template <int Bytes, bool Waits>
__device__ void unread(float* y, const float* x) {
  __shared__ __align__(16) float s[64];
  __shared__ unsigned long long object;
  if (threadIdx.x == 0) {
    make(&object, 1);
    arrive_expecting(&object, Bytes);
    copy(s, x, 256, &object);
    if (Waits) wait(&object, 0);
  }
  y[here()] = x[here()];
}
KERNEL bug_mbarrier_late_end ARGUMENTS { unread<256, false>(y, x); }
KERNEL ok_mbarrier_late_end ARGUMENTS { unread<256, true>(y, x); }
KERNEL bug_mbarrier_bytes_at_end ARGUMENTS { unread<512, false>(y, x); }

/// One stage, filled twice: the second copy may begin when all have read the first.
template <bool Waits>
__device__ void refill(float* y, const float* x) {
  __shared__ __align__(16) float s[64];
  __shared__ unsigned long long full, empty;
  if (threadIdx.x == 0) {
    make(&full, 1);
    make(&empty, 64);
  }
  __syncthreads();
  float sum = 0;
  for (int turn = 0; turn < 2; ++turn) {
    if (threadIdx.x == 0) {
      if (turn == 1 && Waits) wait(&empty, 0);
      arrive_expecting(&full, 256);
      copy(s, x + 64 * ((blockIdx.x + turn) % 2), 256, &full);
    }
    wait(&full, turn);
    sum += static_cast<float>(turn + 1) * s[63 - threadIdx.x];
    if (turn == 0) arrive(&empty);
  }
  y[here()] = sum;
}
KERNEL bug_shared_race_bulk_refill ARGUMENTS { refill<false>(y, x); }
KERNEL ok_shared_race_bulk_refill ARGUMENTS { refill<true>(y, x); }

// --- mbarriers: the first warp writes, the second one reads
template <int Count, int Parity, bool Sync>
__device__ void hand_over(float* y, const float* x) {
  __shared__ float s[32];
  __shared__ unsigned long long object;
  if (threadIdx.x == 0) make(&object, Count);
  if (Sync) __syncthreads();
  if (threadIdx.x < 32) {
    s[threadIdx.x] = x[here()];
    if (Sync) arrive(&object);
    y[here()] = x[here()];
  } else {
    if (!Sync) arrive(&object);
    if (Sync) wait(&object, Parity);
    y[here()] = Sync ? s[63 - threadIdx.x] : 0;
  }
}
KERNEL bug_shared_race_mbarrier_parity ARGUMENTS { hand_over<32, 1, true>(y, x); }
KERNEL ok_shared_race_mbarrier_parity ARGUMENTS { hand_over<32, 0, true>(y, x); }
KERNEL bug_deadlock_mbarrier_count ARGUMENTS { hand_over<33, 0, true>(y, x); }
KERNEL ok_deadlock_mbarrier_count ARGUMENTS { hand_over<32, 0, true>(y, x); }
KERNEL bug_shared_race_mbarrier_made_late ARGUMENTS { hand_over<32, 0, false>(y, x); }

// --- launches that begin early: grid_first runs ahead of them, reads x and writes y
KERNEL ok_grid_first ARGUMENTS {
  y[here()] = x[here()];
  asm volatile("griddepcontrol.launch_dependents;");
}
__device__ void wait_for_first() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

KERNEL bug_grid_order_read ARGUMENTS {
  const float v = y[here()];
  wait_for_first();
  y[here()] = v + 1;
}
KERNEL ok_grid_order_read ARGUMENTS {
  const float v = static_cast<float>(here());  // what needs nothing of the launch ahead may come before
  wait_for_first();
  y[here()] += v;
}
KERNEL bug_grid_order_write ARGUMENTS {
  const_cast<float*>(x)[here()] = 1;
  wait_for_first();
  y[here()] = 2;
}
KERNEL ok_grid_order_write ARGUMENTS {
  wait_for_first();
  const_cast<float*>(x)[here()] = 1;
  y[here()] = 2;
}
template <bool Sync>
__device__ void one_warp_waits(float* y) {
  if (threadIdx.x < 32) wait_for_first();
  if (Sync) __syncthreads();
  y[here()] += 1;
}
KERNEL bug_grid_order_one_warp ARGUMENTS { one_warp_waits<false>(y); }
KERNEL ok_grid_order_one_warp ARGUMENTS { one_warp_waits<true>(y); }
