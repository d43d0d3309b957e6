// The stand-in for libcudart, seen from a program that nvcc compiled.
#include <cstdio>
#include <vector>

#include "kernels/program.h"
#include "runtime/device.h"

namespace {

int failures = 0;
void expect(bool ok, const char* what) {
  if (ok) return;
  ++failures;
  std::printf("failed: %s\n", what);
}

std::vector<float> download(const float* p, std::size_t n) {
  std::vector<float> out(n);
  cudaMemcpy(out.data(), p, n * sizeof(float), cudaMemcpyDeviceToHost);
  return out;
}

struct Arrays {
  static constexpr int n = 300;
  float* x = nullptr;
  float* y = nullptr;
  Arrays() {
    std::vector<float> host(n);
    for (int i = 0; i < n; ++i) host[static_cast<std::size_t>(i)] = static_cast<float>(i);
    expect(cudaMalloc(reinterpret_cast<void**>(&x), n * sizeof(float)) == cudaSuccess, "cudaMalloc x");
    expect(cudaMalloc(reinterpret_cast<void**>(&y), n * sizeof(float)) == cudaSuccess, "cudaMalloc y");
    expect(cudaMemcpy(x, host.data(), n * sizeof(float), cudaMemcpyHostToDevice) == cudaSuccess, "cudaMemcpy");
  }
};

void test_launch(const Arrays& a) {
  expect(launch_scale(a.y, a.x, 2, Arrays::n, nullptr) == cudaSuccess, "launch");
  const std::vector<float> y = download(a.y, Arrays::n);
  expect(y[1] == 2 && y[299] == 598, "values of a launch");
}

void test_dynamic_shared(const Arrays& a) {
  expect(launch_add_dynamic(a.y, 256, 1024, nullptr) == cudaSuccess, "dynamic shared memory");
  expect(download(a.y, 256)[3] == 2.0F * 3 + 2.0F * 252, "values by way of shared memory");
  expect(launch_add_dynamic(a.y, 256, 200 * 1024, nullptr) == cudaErrorInvalidValue,
         "more shared memory than a block has");
  cudaGetLastError();
}

void test_graph(const Arrays& a) {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  launch_scale(a.y, a.x, 1, Arrays::n, stream);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  launch_scale(a.y, a.y, 3, Arrays::n, stream);
  launch_scale(a.y, a.y, 0.5F, Arrays::n, stream);
  expect(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported, "no waiting in a capture");
  cudaGraph_t graph = nullptr;
  expect(cudaStreamEndCapture(stream, &graph) == cudaSuccess, "capture");
  expect(download(a.y, 2)[1] == 1, "a capture runs nothing");
  cudaGraphExec_t ready = nullptr;
  expect(cudaGraphInstantiate(&ready, graph, 0) == cudaSuccess, "instantiate");
  for (int i = 0; i < 2; ++i) expect(cudaGraphLaunch(ready, stream) == cudaSuccess, "replay");
  expect(download(a.y, 2)[1] == 2.25F, "two replays");
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

void test_early_launch(const Arrays& a) {
  auto& findings = ptxsim::simulated_device().findings;
  launch_scale(a.y, a.x, 1, Arrays::n, nullptr);
  expect(launch_twice_early(a.y, Arrays::n, true, nullptr) == cudaSuccess, "an early launch");
  expect(findings.empty(), "it waits");
  expect(download(a.y, 2)[1] == 2, "values of an early launch");
  launch_twice_early(a.y, Arrays::n, false, nullptr);
  expect(findings.empty(), "behind a copy nothing is early");
  launch_twice_early(a.y, Arrays::n, false, nullptr);
  expect(findings.size() == 2 && findings[0].check == ptxsim::Check::grid_order, "an early launch that does not wait");
  findings.clear();
}

void test_allocation_failure() {
  ptxsim::simulated_device().fail_allocation = 1;
  void* p = nullptr;
  expect(cudaMalloc(&p, 16) == cudaErrorMemoryAllocation, "an injected failure");
  expect(cudaGetLastError() == cudaErrorMemoryAllocation, "the last error");
  expect(cudaGetLastError() == cudaSuccess, "is told once");
}

/// Last: afterwards the device is lost.
void test_fault(const Arrays& a) {
  expect(ptxsim::simulated_device().findings.empty(), "no findings before");
  launch_out_of_bounds(a.y, nullptr);
  expect(cudaDeviceSynchronize() == cudaErrorLaunchFailure, "a fault is reported");
  expect(cudaMemcpy(a.y, a.x, 4, cudaMemcpyDeviceToDevice) == cudaErrorLaunchFailure, "and stays");
  const auto& findings = ptxsim::simulated_device().findings;
  expect(findings.size() == 1 && findings[0].check == ptxsim::Check::bounds, "the finding");
  expect(!findings.empty() && findings[0].source == "program.cu:21", "its source line");
  if (!findings.empty()) std::printf("%s %s\n", findings[0].source.c_str(), findings[0].text.c_str());
}

}  // namespace

void test_clusters(const Arrays& a) {
  expect(launch_scale(a.y, a.x, 1, Arrays::n, nullptr) == cudaSuccess, "launch");
  expect(launch_exchange(a.y, 4, 2, nullptr) == cudaErrorInvalidClusterSize, "no cluster on a chip without them");
  cudaGetLastError();
  const ptxsim::Chip chip = ptxsim::simulated_device().chip;
  ptxsim::simulated_device().chip = ptxsim::h200_chip;
  expect(launch_exchange(a.y, 4, 3, nullptr) == cudaErrorInvalidClusterSize, "a grid is a multiple of its clusters");
  cudaGetLastError();
  expect(launch_exchange(a.y, 16, 16, nullptr) == cudaErrorInvalidClusterSize, "more blocks than a cluster has");
  cudaGetLastError();
  expect(launch_exchange(a.y, 4, 2, nullptr) == cudaSuccess, "a launch in clusters");
  ptxsim::simulated_device().chip = chip;
  const std::vector<float> y = download(a.y, 128);
  for (std::size_t i = 0; i < 128; ++i) expect(y[i] == static_cast<float>(i ^ 32U), "values of the other block");
  expect(ptxsim::simulated_device().findings.empty(), "no findings");
}

int main() {
  const Arrays arrays;
  test_launch(arrays);
  test_dynamic_shared(arrays);
  test_graph(arrays);
  test_early_launch(arrays);
  test_clusters(arrays);
  test_allocation_failure();
  test_fault(arrays);
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
