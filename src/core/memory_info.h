// How much memory this process can still have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace llminfer::core {

/// Bytes that could be allocated now without swapping: what the kernel has (free, or caches it would drop), and what
/// the cgroup's limits leave, the tightest of the group and its parents. 0 where unknown. `root` is where /proc and
/// /sys are: "/", or a test's folder. Throws only bad_alloc.
std::uint64_t available_memory(const std::filesystem::path& root = "/");

// ---- The parts, for tests ----

/// A field of /proc/meminfo ("MemAvailable", in KiB there) in bytes; 0 if it has none.
std::uint64_t parse_meminfo(std::string_view text, std::string_view field) noexcept;

}  // namespace llminfer::core
