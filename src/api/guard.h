// The border of the library: every public operation runs inside core::guard, here under a shorter name.
#pragma once

#include "core/guard.h"

namespace llminfer::api {

using core::guard;

}  // namespace llminfer::api
