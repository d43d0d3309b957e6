#include "device/registry.h"

#include "device/cpu/cpu_backend.h"
#include "device/reference/reference_backend.h"
#include "device/sim/sim_backend.h"

namespace llminfer::device {

std::shared_ptr<backend::Backend> open_reference() { return make_reference_backend(); }

std::shared_ptr<backend::Backend> open_cpu(const CpuOptions& options) {
  return cpu::make_cpu_backend({options.threads, options.isa, options.huge_pages});
}

std::shared_ptr<backend::Backend> open_sim(const DeviceDescription& description, std::uint64_t seed,
                                           std::shared_ptr<core::ManualClock> clock) {
  return sim::make_sim_backend(description, seed, std::move(clock));
}

}  // namespace llminfer::device
