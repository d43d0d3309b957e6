#pragma once

#include <cuda_runtime_api.h>

cudaError_t launch_scale(float* y, const float* x, float a, int n, cudaStream_t stream);
/// y[t] += y[n - 1 - t] in one block, by way of `bytes` of dynamic shared memory.
cudaError_t launch_add_dynamic(float* y, int n, int bytes, cudaStream_t stream);
/// y[i] *= 2, allowed to begin before the launch ahead of it is complete; `waits`: for that one.
cudaError_t launch_twice_early(float* y, int n, bool waits, cudaStream_t stream);
cudaError_t launch_out_of_bounds(float* y, cudaStream_t stream);
