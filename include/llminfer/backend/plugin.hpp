// Devices from plug-ins: shared libraries that export llminfer_backend_plugin. Versioned with backend.hpp.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <llminfer/backend/backend.hpp>
#include <llminfer/export.hpp>

namespace llminfer {
inline namespace v0 {
namespace backend {

/// Opens device `index` of the plug-in in `file`; give it to Device::wrap. The plug-in stays loaded until the process
/// ends, since nobody can know when its last object is gone. Errors: not_found (no such file), mismatch (built for
/// another interface_version), corrupt (no shared library, or no plug-in), and what the plug-in's open returns.
/// (any thread)
LLMINFER_API Result<std::shared_ptr<Backend>> open_plugin(const std::filesystem::path& file, int index = 0);

/// The file of a plug-in that was installed with the library: libllminfer_NAME.so in the folder llminfer beside the
/// library (of a program with the library inside: beside the program, or in ../lib/llminfer). Errors: not_found,
/// invalid_argument (a name that is no word).
LLMINFER_API Result<std::filesystem::path> find_plugin(const std::string& name);

}  // namespace backend
}  // namespace v0
}  // namespace llminfer
