// The reference device: slow and obvious. It defines what every op means; all other devices are compared with it.
// Weights are unpacked to float32 once; products are Eigen's; everything between is float32 with sums in double.
#pragma once

#include <llminfer/backend/backend.hpp>
#include <memory>

#include "core/memory.h"

namespace llminfer::device {

/// `memory` counts what the device takes; null: an own one without a limit.
std::shared_ptr<backend::Backend> make_reference_backend(std::shared_ptr<core::Memory> memory = nullptr);

}  // namespace llminfer::device
