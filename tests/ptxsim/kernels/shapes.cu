// Clean kernels whose results are known: loops and branches of every kind, all math functions, matrix instructions.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#define KERNEL extern "C" __global__ void

KERNEL sums(float* y, const float* x, int n) {
  __shared__ float s[8];
  float v = 0;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) v += x[i];
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffU, v, d);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    v = 0;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) v += s[w];
    y[0] = v;
  }
}

/// Lanes run loops of different length and a switch.
KERNEL collatz(int* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  int v = i + 1, steps = 0;
  while (v != 1) {
    v = v % 2 == 0 ? v / 2 : 3 * v + 1;
    ++steps;
  }
  switch (i % 7) {
    case 0:
      steps += 10;
      break;
    case 1:
      steps -= 3;
      break;
    case 2:
      steps *= 2;
      break;
    case 3:
      steps ^= 5;
      break;
    case 4:
      steps = -steps;
      break;
    case 5:
      steps += i;
      break;
    default:
      break;
  }
  y[i] = steps;
}

KERNEL functions(float* y, const float* x, int n) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= n) return;
  const float v = x[i];
  float* out = y + 12 * i;
  out[0] = expf(v);
  out[1] = tanhf(v);
  out[2] = rsqrtf(fabsf(v) + 1);
  out[3] = sqrtf(fabsf(v));
  out[4] = logf(fabsf(v) + 1);
  out[5] = 1 / (v * v + 1);
  out[6] = rintf(v * 10);
  out[7] = __half2float(__float2half(v));
  out[8] = __bfloat162float(__float2bfloat16(v));
  out[9] = static_cast<float>(static_cast<int>(v * 100));
  out[10] = static_cast<float>(static_cast<double>(v) / 3);
  out[11] = fmaf(v, v, -v);
}

/// C = A B^T of one 16 x 8 tile, A and B through ldmatrix; and B again by the transposing load.
KERNEL tile(float* c, float* c_trans, const half* a, const half* b) {
  __shared__ __align__(16) half sa[16 * 16], sb[8 * 16], sbt[16 * 8];
  for (unsigned i = threadIdx.x; i < 256; i += 32) sa[i] = a[i];
  for (unsigned i = threadIdx.x; i < 128; i += 32) sb[i] = b[i];
  for (unsigned i = threadIdx.x; i < 128; i += 32) sbt[(i % 16) * 8 + i / 16] = b[i];
  __syncwarp();
  const unsigned lane = threadIdx.x;
  uint32_t x[4], w[2];
  const auto address = [](const half* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); };
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address(sa + (lane % 16) * 16 + lane / 16 * 8)));
  for (int trans = 0; trans < 2; ++trans) {
    if (trans == 0) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                   : "=r"(w[0]), "=r"(w[1])
                   : "r"(address(sb + (lane % 8) * 16 + lane / 8 % 2 * 8)));
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                   : "=r"(w[0]), "=r"(w[1])
                   : "r"(address(sbt + lane % 16 * 8)));
    }
    float d[4] = {0, 0, 0, 0};
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(w[0]), "r"(w[1]));
    float* out = trans == 0 ? c : c_trans;
    for (int e = 0; e < 4; ++e) out[(lane / 4 + e / 2 * 8) * 8 + lane % 4 * 2 + e % 2] = d[e];
  }
}

/// y = x transposed, of 8 x 8 halves.
KERNEL turned(unsigned* y, const unsigned* x) {
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y[threadIdx.x]) : "r"(x[threadIdx.x]));
}

/// Values that no lane shares, by way of local memory and a table.
__device__ const int powers[6] = {1, 3, 9, 27, 81, 243};
KERNEL tables(int* y, int n) {
  int v[8];
  for (int k = 0; k < 8; ++k) v[k] = powers[(k + n) % 6] + static_cast<int>(threadIdx.x);
  y[threadIdx.x] = v[(threadIdx.x + static_cast<unsigned>(n)) % 8];
}
