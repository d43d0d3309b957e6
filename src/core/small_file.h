// Text files of /proc and /sys.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace llminfer::core {

/// The first 64 KiB of a small text file, nothing if it cannot be read. Files of /proc and /sys have no size to ask
/// for.
std::optional<std::string> read_small_file(const std::filesystem::path& path);

}  // namespace llminfer::core
