#include "core/memory_info.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>

#include "core/cpu_info.h"
#include "core/small_file.h"

namespace llminfer::core {
namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

/// Empty if it cannot be read.
std::string read_text(const std::filesystem::path& path) { return read_small_file(path).value_or(std::string()); }

std::optional<std::uint64_t> number(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

/// The number after `field` at the start of a line.
std::optional<std::uint64_t> field_of(std::string_view text, std::string_view field) noexcept {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.substr(0, field.size()) != field) continue;
    line.remove_prefix(field.size());
    if (line.empty() || (line.front() != ':' && line.front() != ' ')) continue;
    return number(line.substr(1));
  }
  return std::nullopt;
}

/// What a group's limit leaves. Its file cache counts as used but would be dropped.
std::uint64_t left_in(const std::filesystem::path& group, const char* limit_file, const char* used_file,
                      const char* cache_field) {
  const std::optional<std::uint64_t> limit = number(read_text(group / limit_file));  // nothing for "max"
  const std::optional<std::uint64_t> used = number(read_text(group / used_file));
  if (!limit || !used) return unlimited;
  const std::uint64_t cache = field_of(read_text(group / "memory.stat"), cache_field).value_or(0);
  const std::uint64_t kept = *used - std::min(*used, cache);
  return *limit - std::min(*limit, kept);
}

/// Of a group and its parents up to the mount point, which inside a container is the container's own group.
template <class Left>
std::uint64_t least_left(const std::filesystem::path& mount, const std::string& group, Left left) {
  std::uint64_t least = left(mount);
  std::filesystem::path folder = mount;
  for (const std::filesystem::path& part : std::filesystem::path(group).relative_path()) {
    if (part == "..") break;
    folder /= part;
    least = std::min(least, left(folder));
  }
  return least;
}

}  // namespace

std::uint64_t parse_meminfo(std::string_view text, std::string_view field) noexcept {
  const std::uint64_t kib = field_of(text, field).value_or(0);
  return kib > unlimited / 1024 ? 0 : kib * 1024;
}

std::uint64_t available_memory(const std::filesystem::path& root) {
  std::uint64_t available = parse_meminfo(read_text(root / "proc/meminfo"), "MemAvailable");
  if (available == 0) available = unlimited;
  const CgroupPaths paths = parse_cgroup_paths(read_text(root / "proc/self/cgroup"));
  const std::filesystem::path mount = root / "sys/fs/cgroup";
  if (paths.unified) {
    const auto left = [](const std::filesystem::path& group) {
      return left_in(group, "memory.max", "memory.current", "inactive_file");
    };
    available = std::min(available, least_left(mount, *paths.unified, left));
  }
  if (paths.memory) {
    const auto left = [](const std::filesystem::path& group) {
      return left_in(group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file");
    };
    available = std::min(available, least_left(mount / "memory", *paths.memory, left));
  }
  return available == unlimited ? 0 : available;
}

}  // namespace llminfer::core
