// The cpu device with one set of kernels against the reference:  ops_cpu ISA [--slow] [--filter TEXT]
#include <cstdio>
#include <llminfer/error.hpp>

#include "device/cpu/cpu_backend.h"
#include "device/reference/reference_backend.h"
#include "report.h"

int main(int argc, char** argv) {
  using namespace llminfer;
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s ISA [--slow] [--filter TEXT]\n", argv[0]);
    return 2;
  }
  backend::OpCaseOptions options;
  if (!tests::read_options(argc - 1, argv + 1, options)) return 2;
  std::shared_ptr<backend::Backend> device;
  try {
    cpu::CpuSettings settings;
    settings.threads = 2;
    settings.isa = argv[1];
    device = cpu::make_cpu_backend(settings);
  } catch (const Exception& e) {
    std::printf("%s: %s\n", to_string(e.error().code), e.what());
    return e.error().code == ErrorCode::unavailable ? 77 : 1;
  }
  const DeviceInfo info = device->info();
  std::printf("%s, kernels %s, %d threads\n", info.name.c_str(), info.isa.c_str(), info.threads);
  if (info.isa != argv[1]) {
    std::printf("asked for %s\n", argv[1]);
    return 1;
  }
  const std::string title = "cpu " + info.isa + " against reference";
  return tests::run_and_report(title.c_str(), *device, *device::make_reference_backend(), options, 1);
}
