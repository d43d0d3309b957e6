#include "core/cpu_info.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <thread>

#include "core/cpu_features.h"
#include "core/small_file.h"

namespace llminfer::core {
namespace {

constexpr std::size_t most_cpus = 65536;

bool is_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Takes a decimal number off the front of the text.
std::optional<std::int64_t> take_number(std::string_view& text) noexcept {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take_char(std::string_view& text, char c) noexcept {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

// Takes the text before the next separator off the front, and the separator with it.
std::string_view take_field(std::string_view& text, char separator) noexcept {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view field = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return field;
}

bool lists_controller(std::string_view controllers, std::string_view name) noexcept {
  while (!controllers.empty()) {
    if (take_field(controllers, ',') == name) return true;
  }
  return false;
}

// The tighter of two limits, where 0 is none.
int tighter(int a, int b) noexcept {
  if (a == 0 || b == 0) return std::max(a, b);
  return std::min(a, b);
}

int read_v1_quota(const std::filesystem::path& folder) {
  const std::optional<std::string> quota = read_small_file(folder / "cpu.cfs_quota_us");
  const std::optional<std::string> period = read_small_file(folder / "cpu.cfs_period_us");
  if (!quota || !period) return 0;
  std::string_view quota_text = *quota, period_text = *period;
  return quota_cores(take_number(quota_text).value_or(0), take_number(period_text).value_or(0));
}

int read_v2_quota(const std::filesystem::path& folder) {
  const std::optional<std::string> text = read_small_file(folder / "cpu.max");
  return text ? parse_cpu_max(*text) : 0;
}

// The tightest quota of a group and all its parents. Inside a container the path may be the host's, so that the lower
// folders do not exist; the mount point itself is then the container's group.
template <class Read>
int tightest_quota(const std::filesystem::path& mount, const std::string& group, Read read) {
  int cores = read(mount);
  std::filesystem::path folder = mount;
  for (const std::filesystem::path& part : std::filesystem::path(group).relative_path()) {
    if (part == "..") break;  // a group outside of what this namespace shows
    folder /= part;
    cores = tighter(cores, read(folder));
  }
  return cores;
}

// The logical processors that this process may run on; empty if the system does not tell.
std::vector<int> affinity_cpus() {
  std::vector<int> cpus;
#if defined(__linux__)
  for (std::size_t capacity = 1024; capacity <= most_cpus; capacity *= 4) {
    std::vector<cpu_set_t> mask(capacity / (8 * sizeof(cpu_set_t)));
    const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, mask.data()) != 0) continue;  // the kernel's mask is larger than this one
    for (std::size_t cpu = 0; cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, mask.data())) cpus.push_back(static_cast<int>(cpu));
    }
    break;
  }
#endif
  return cpus;
}

std::filesystem::path cpu_folder(const std::filesystem::path& root, int cpu) {
  return root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu));
}

// What the C library knows, for systems without /sys.
std::size_t cache_by_sysconf([[maybe_unused]] int level) noexcept {
  long bytes = 0;
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  const int name = level == 1 ? _SC_LEVEL1_DCACHE_SIZE : level == 2 ? _SC_LEVEL2_CACHE_SIZE : _SC_LEVEL3_CACHE_SIZE;
  bytes = ::sysconf(name);
#endif
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  text = trimmed(text);
  do {
    const std::optional<std::int64_t> first = take_number(text);
    if (!first || *first < 0) break;
    std::int64_t last = *first;
    if (take_char(text, '-')) {
      const std::optional<std::int64_t> end = take_number(text);
      if (!end) break;
      last = *end;
    }
    for (std::int64_t cpu = *first; cpu <= last; ++cpu) {
      if (cpus.size() >= most_cpus || cpu > std::numeric_limits<int>::max()) return cpus;
      cpus.push_back(static_cast<int>(cpu));
    }
  } while (take_char(text, ','));
  return cpus;
}

std::size_t parse_cache_size(std::string_view text) noexcept {
  text = trimmed(text);
  const std::optional<std::int64_t> number = take_number(text);
  if (!number || *number < 0 || *number > (std::int64_t{1} << 40)) return 0;
  const auto size = static_cast<std::size_t>(*number);
  if (text == "K") return size << 10;
  if (text == "M") return size << 20;
  return text.empty() ? size : 0;
}

int quota_cores(std::int64_t quota, std::int64_t period) noexcept {
  if (quota <= 0 || period <= 0) return 0;
  const std::int64_t cores = quota / period + (quota % period != 0 ? 1 : 0);
  return static_cast<int>(std::min<std::int64_t>(cores, most_cpus));
}

int parse_cpu_max(std::string_view text) noexcept {
  text = trimmed(text);
  const std::optional<std::int64_t> quota = take_number(text);  // nothing for "max"
  if (!quota || !take_char(text, ' ')) return 0;
  return quota_cores(*quota, take_number(text).value_or(0));
}

CgroupPaths parse_cgroup_paths(std::string_view text) {
  CgroupPaths paths;
  while (!text.empty()) {  // "4:cpu,cpuacct:/group"; v2: "0::/group"
    std::string_view line = take_field(text, '\n');
    const std::string_view hierarchy = take_field(line, ':');
    const std::string_view controllers = take_field(line, ':');
    if (hierarchy == "0" && controllers.empty()) paths.unified = std::string(line);
    if (lists_controller(controllers, "cpu")) paths.cpu = std::string(line);
    if (lists_controller(controllers, "memory")) paths.memory = std::string(line);
  }
  return paths;
}

int read_quota_cores(const std::filesystem::path& root) {
  const std::optional<std::string> text = read_small_file(root / "proc/self/cgroup");
  const CgroupPaths paths = parse_cgroup_paths(text ? *text : std::string());
  const std::filesystem::path mount = root / "sys/fs/cgroup";
  int cores = 0;
  if (paths.cpu) {
    for (const char* controller : {"cpu", "cpu,cpuacct", "cpuacct,cpu"}) {
      cores = tighter(cores, tightest_quota(mount / controller, *paths.cpu, read_v1_quota));
    }
  }
  if (paths.unified) {
    cores = tighter(cores, tightest_quota(mount, *paths.unified, read_v2_quota));
    cores = tighter(cores, tightest_quota(mount / "unified", *paths.unified, read_v2_quota));
  }
  return cores;
}

int read_physical_cores(const std::filesystem::path& root, const std::vector<int>& cpus) {
  std::set<int> first_siblings;  // a core is named by its first logical processor
  for (const int cpu : cpus) {
    const std::optional<std::string> text = read_small_file(cpu_folder(root, cpu) / "topology/thread_siblings_list");
    const std::vector<int> siblings = parse_cpu_list(text ? *text : std::string());
    if (siblings.empty()) return 0;
    first_siblings.insert(siblings.front());
  }
  return static_cast<int>(first_siblings.size());
}

CacheSizes read_cache_sizes(const std::filesystem::path& root, int cpu) {
  CacheSizes sizes;
  for (int index = 0; index < 16; ++index) {
    const std::filesystem::path folder = cpu_folder(root, cpu) / "cache" / ("index" + std::to_string(index));
    const std::optional<std::string> level = read_small_file(folder / "level");
    const std::optional<std::string> type = read_small_file(folder / "type");
    const std::optional<std::string> size = read_small_file(folder / "size");
    if (!level || !type || !size) break;
    if (trimmed(*type) == "Instruction") continue;
    const std::size_t bytes = parse_cache_size(*size);
    if (trimmed(*level) == "1") sizes.l1 = bytes;
    if (trimmed(*level) == "2") sizes.l2 = bytes;
    if (trimmed(*level) == "3") sizes.l3 = bytes;
  }
  return sizes;
}

int usable_cores(const CoreCounts& counts) noexcept {
  return std::max(1, tighter(tighter(counts.affinity, counts.physical), counts.quota));
}

CpuInfo detect_cpu() {
  const std::filesystem::path root = "/";
  CpuInfo info;
  info.vendor = detect_vendor();
  info.model = detect_model();
  info.features = detect_features();
  const std::vector<int> cpus = affinity_cpus();
  info.cores.affinity =
      cpus.empty() ? static_cast<int>(std::thread::hardware_concurrency()) : static_cast<int>(cpus.size());
  info.cores.physical = read_physical_cores(root, cpus);
  info.cores.quota = read_quota_cores(root);
  info.cores.usable = usable_cores(info.cores);
  info.caches = read_cache_sizes(root, cpus.empty() ? 0 : cpus.front());
  if (info.caches.l1 == 0) info.caches.l1 = cache_by_sysconf(1);
  if (info.caches.l2 == 0) info.caches.l2 = cache_by_sysconf(2);
  if (info.caches.l3 == 0) info.caches.l3 = cache_by_sysconf(3);
  return info;
}

}  // namespace llminfer::core
