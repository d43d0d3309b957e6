// The CUDA device in the simulator against the reference device:
//   ptxsim_device [--all] [--speed] [--clusters] [--slow] [--filter TEXT]
// Without --all a part of the list that is quick to interpret. Every finding of the simulator is a failure. --speed
// also prints how fast each kernel was interpreted; --clusters: on a chip that has them.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <vector>

#include "cublas/stand_in.h"
#include "device/reference/reference_backend.h"
#include "host/cuda_backend.h"
#include "report.h"
#include "runtime/device.h"

namespace {

using namespace llminfer;

/// What the commit tier runs: each op, each format, shapes with rests.
constexpr const char* quick[] = {"add/",
                                 "scale/",
                                 "slice/",
                                 "gather_rows/",
                                 "softcap/",
                                 "gated_activation/",
                                 "rms_norm/",
                                 "layer_norm/",
                                 "embed/",
                                 "rope/",
                                 "moe_route/",
                                 "moe_combine/",
                                 "arg_max",
                                 "top_k",
                                 "q4_0 96x33",
                                 "q8_0 96x33",
                                 "q4_0 576x64",
                                 "q4_k 256x33",
                                 "q6_k 256x33",
                                 "mxfp4 32x33",
                                 "f16 64x33",
                                 "moe_matmul/q4_0",
                                 "head 64 gqa 3",
                                 "k 5 v 3",
                                 "window 5",
                                 "cap sinks",
                                 "full sinks",
                                 "q4_0 q8_0 head 80",
                                 "q4_0 q4_0 head 80",
                                 "bf16 f32 head 64",
                                 "matmul/f32 7x3",
                                 "matmul/f32 300x",
                                 "matmul/f32 768x97",
                                 "plain f32",
                                 "plain q4_0",
                                 "plain q8_0",
                                 "more norms q8_0",
                                 "fused projections q8_0",
                                 "experts, sinks"};

int run(const char* filter, const backend::Backend& device, const backend::Backend& reference,
        backend::OpCaseOptions options) {
  options.filter = filter;
  const std::string title = std::string("cuda in the simulator: ") + (*filter != '\0' ? filter : "all");
  return tests::run_and_report(title.c_str(), device, reference, options, 1);
}

/// Products of floats are cuBLAS's for prompts, and ours without it.
int own_products(const backend::Backend& reference, backend::OpCaseOptions options) {
  const auto device = cuda::make_cuda_backend(0);
  return run("matmul/f32 300x", *device, reference, options) | run("matmul/f32 768x97", *device, reference, options);
}

/// `wanted`: some cases have such products.
int report_cublas(bool wanted) {
  const ptxsim::SimulatedCublas& seen = ptxsim::simulated_cublas();
  for (const std::string& what : seen.complaints) std::printf("cuBLAS: %s\n", what.c_str());
  std::printf("%llu products by cuBLAS\n", static_cast<unsigned long long>(seen.products));
  const bool well = seen.complaints.empty() && seen.in_default_workspace == 0 && (seen.products > 0 || !wanted);
  return well ? 0 : 1;
}

int report_findings() {
  const auto& findings = ptxsim::simulated_device().findings;
  std::map<std::string, int> seen;
  for (const ptxsim::Finding& f : findings) {
    const std::string line = std::string(name_of(f.check)) + " " + f.source + " " + f.kernel;
    if (++seen[line] == 1) std::printf("finding: %s: %s\n", line.c_str(), f.text.c_str());
  }
  const ptxsim::CallCounts& calls = ptxsim::simulated_device().calls;
  std::printf("%zu findings, %llu launches, %.0f M lane instructions, %.0f M in a second\n", findings.size(),
              static_cast<unsigned long long>(calls.launches), static_cast<double>(calls.lane_instructions) / 1e6,
              static_cast<double>(calls.lane_instructions) / 1e6 / calls.seconds);
  return findings.empty() ? 0 : 1;
}

/// Kernels by the time they took, the slowest last.
void report_speed() {
  struct Sum {
    double lanes = 0, seconds = 0;
    std::uint64_t launches = 0;
  };
  std::map<std::string, Sum> kernels;
  for (const ptxsim::LaunchRecord& r : ptxsim::simulated_device().launches) {
    Sum& s = kernels[r.kernel];
    s.lanes += static_cast<double>(r.counters.lane_instructions);
    s.seconds += r.seconds;
    ++s.launches;
  }
  std::vector<std::pair<std::string, Sum>> list(kernels.begin(), kernels.end());
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.second.seconds < b.second.seconds; });
  for (const auto& [name, s] : list) {
    std::printf("%8.3f s %6.0f M/s %6llu launches  %.90s\n", s.seconds, s.lanes / 1e6 / s.seconds,
                static_cast<unsigned long long>(s.launches), name.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  bool all = false, speed = false;
  std::vector<char*> rest{argv[0]};
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--all") == 0) {
      all = true;
    } else if (std::strcmp(argv[i], "--speed") == 0) {
      speed = true;
    } else if (std::strcmp(argv[i], "--clusters") == 0) {
      ptxsim::simulated_device().chip = ptxsim::h200_chip;
    } else {
      rest.push_back(argv[i]);
    }
  }
  backend::OpCaseOptions options;
  if (!tests::read_options(static_cast<int>(rest.size()), rest.data(), options)) return 2;
  const auto device = cuda::make_cuda_backend(0, {ptxsim::stand_in_cublas()});
  const auto reference = device::make_reference_backend();
  int bad = 0;
  ptxsim::simulated_device().record_launches = speed;
  if (all || !options.filter.empty()) {
    bad = run(options.filter.c_str(), *device, *reference, options);
  } else {
    options.refusals = false;
    for (const char* filter : quick) bad |= run(filter, *device, *reference, options);
    bad |= own_products(*reference, options);
  }
  bad |= report_cublas(options.filter.empty());
  if (speed) report_speed();
  return report_findings() | bad;
}
