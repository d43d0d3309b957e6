// The only place that names concrete devices.
#pragma once

#include <llminfer/backend/backend.hpp>
#include <llminfer/device.hpp>
#include <llminfer/device_description.hpp>
#include <memory>

#include "core/clock.h"

namespace llminfer::device {

/// Each throws what the device reports (invalid_argument, unavailable, out_of_memory).
std::shared_ptr<backend::Backend> open_reference();
std::shared_ptr<backend::Backend> open_cpu(const CpuOptions& options);
/// Computes nothing and moves `clock` by the time a step would take on the described device; tokens by hash of `seed`.
std::shared_ptr<backend::Backend> open_sim(const DeviceDescription& description, std::uint64_t seed,
                                           std::shared_ptr<core::ManualClock> clock);

}  // namespace llminfer::device
