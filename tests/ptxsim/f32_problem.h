// Products with weights of 32 bits by the kernels of matmul_f32.
#pragma once

#include "kernels/matmul_f32.h"
#include "matmul_problem.h"

namespace ptxsim::tests {

/// `multiprocessors`: 0 gives the largest tiles, many the smallest.
inline std::vector<float> run_f32(const Problem& p, int multiprocessors) {
  cuda::MatMulF32Params m;
  m.weight = to_device(p.weights);
  m.in = to_device(p.in);
  m.bias = to_device(p.bias);
  m.rows = p.shape.rows;
  m.columns_in = p.shape.columns_in;
  m.columns_out = p.shape.columns_out;
  m.multiprocessors = multiprocessors;
  std::vector<float> out(static_cast<std::size_t>(m.rows * m.columns_out));
  m.out = to_device(out);
  REQUIRE(launch(m, nullptr) == cudaSuccess);
  REQUIRE(cudaMemcpy(out.data(), m.out, out.size() * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess);
  for (const float* d : {m.weight, m.in, m.bias, static_cast<const float*>(m.out)}) cudaFree(const_cast<float*>(d));
  return out;
}

/// Of one launch for so many rows, with tiles.
inline Counters f32_counters(int rows, int columns_in, int columns_out) {
  const Problem p({WeightType::f32, rows, columns_in, columns_out});
  SimulatedDevice& device = simulated_device();
  device.record_launches = true;
  device.launches.clear();
  run_f32(p, 0);
  device.record_launches = false;
  REQUIRE(device.launches.size() == 1);
  no_findings();
  return device.launches[0].counters;
}

}  // namespace ptxsim::tests
