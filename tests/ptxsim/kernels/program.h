#pragma once

#include <cuda_runtime_api.h>

cudaError_t launch_scale(float* y, const float* x, float a, int n, cudaStream_t stream);
/// y[t] += y[n - 1 - t] in one block, by way of `bytes` of dynamic shared memory.
cudaError_t launch_add_dynamic(float* y, int n, int bytes, cudaStream_t stream);
/// y[i] *= 2, allowed to begin before the launch ahead of it is complete; `waits`: for that one.
cudaError_t launch_twice_early(float* y, int n, bool waits, cudaStream_t stream);
/// Blocks of 32 threads, each with as many values of y: those of a cluster of two change theirs, on a chip that has
/// clusters.
cudaError_t launch_exchange(float* y, int blocks, int cluster, cudaStream_t stream);
cudaError_t launch_out_of_bounds(float* y, cudaStream_t stream);
