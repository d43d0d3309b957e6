// The only place that names concrete devices.
#pragma once

#include <llminfer/backend/backend.hpp>
#include <llminfer/device.hpp>
#include <memory>

namespace llminfer::device {

/// Each throws what the device reports (invalid_argument, unavailable, out_of_memory).
std::shared_ptr<backend::Backend> open_reference();
std::shared_ptr<backend::Backend> open_cpu(const CpuOptions& options);

}  // namespace llminfer::device
