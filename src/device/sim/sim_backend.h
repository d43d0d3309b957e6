// A device that computes nothing: a step moves a virtual clock by the time it would take on a described device. Pages
// have numbers but no memory, weights are never read, and each output row chooses a token by a hash of the seed, the
// token before it and its position.
#pragma once

#include <cstdint>
#include <llminfer/backend/backend.hpp>
#include <llminfer/device_description.hpp>
#include <memory>

#include "core/clock.h"

namespace llminfer::device::sim {

/// `clock` is moved by the device alone, or also by its owner between steps. Spans for a ProfileSink, one a step, are
/// in its time.
std::shared_ptr<backend::Backend> make_sim_backend(const DeviceDescription& description, std::uint64_t seed,
                                                   std::shared_ptr<core::ManualClock> clock);

}  // namespace llminfer::device::sim
