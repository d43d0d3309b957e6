// What cpu_info asks the processor itself. Not for others: they read a CpuInfo.
#pragma once

#include <string>

#include "core/cpu_info.h"

namespace llminfer::core {

CpuFeatures detect_features() noexcept;
std::string detect_vendor();
std::string detect_model();

}  // namespace llminfer::core
