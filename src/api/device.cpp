#include <llminfer/backend/backend.hpp>
#include <llminfer/device.hpp>

#include "api/guard.h"
#include "core/fail.h"
#include "device/registry.h"
#include "profile/description_check.h"

namespace llminfer {
inline namespace v0 {

Device::Device(std::shared_ptr<backend::Backend> backend) noexcept : backend_(std::move(backend)) {}

Result<Device> Device::cpu(CpuOptions options) {
  return api::guard("Device::cpu", [&] { return Device(device::open_cpu(options)); });
}

Result<Device> Device::reference() {
  return api::guard("Device::reference", [] { return Device(device::open_reference()); });
}

Result<Device> Device::simulated(const DeviceDescription& description, std::uint64_t seed) {
  return api::guard("Device::simulated", [&] {
    profile::check(description);
    return Device(device::open_sim(description, seed, std::make_shared<core::ManualClock>()));
  });
}

Result<Device> Device::wrap(std::shared_ptr<backend::Backend> backend) {
  return api::guard("Device::wrap", [&] {
    if (backend == nullptr) core::fail(ErrorCode::invalid_argument, "the backend is null");
    return Device(std::move(backend));
  });
}

Result<DeviceInfo> Device::info() const {
  return api::guard("Device::info", [&] { return backend_->info(); });
}

std::uint64_t Device::memory_used() const noexcept { return backend_->memory_used(); }

}  // namespace v0
}  // namespace llminfer
