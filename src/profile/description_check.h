// Descriptions that did not come from a file may hold anything.
#pragma once

#include <llminfer/device_description.hpp>

namespace llminfer::profile {

/// Throws Exception (invalid_argument) naming the field and the value for what parse() would refuse; sources may be
/// empty.
void check(const DeviceDescription& description);

}  // namespace llminfer::profile
