#include "device/registry.h"

#include "device/cpu/cpu_backend.h"
#include "device/reference/reference_backend.h"

namespace llminfer::device {

std::shared_ptr<backend::Backend> open_reference() { return make_reference_backend(); }

std::shared_ptr<backend::Backend> open_cpu(const CpuOptions& options) {
  return cpu::make_cpu_backend({options.threads, options.isa, options.huge_pages});
}

}  // namespace llminfer::device
