// What processor this is, and how many of its cores this process may use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llminfer::core {

/// Instruction sets that kernels choose by: true where the processor has them and the operating system saves their
/// registers. Those of the other architecture are false.
struct CpuFeatures {
  // x86-64
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx_vnni = false;
  bool avx512f = false;
  bool avx512bw = false;
  bool avx512dq = false;
  bool avx512vl = false;
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
  bool amx_tile = false;  ///< Linux grants the tiles to a process that asks (arch_prctl); these say nothing about that
  bool amx_int8 = false;
  bool amx_bf16 = false;
  // aarch64
  bool neon_dotprod = false;
  bool neon_i8mm = false;
  bool neon_bf16 = false;

  friend bool operator==(const CpuFeatures&, const CpuFeatures&) = default;
};

/// Bytes of the data caches that the first core sees; l3 is usually shared. 0 where unknown or absent.
struct CacheSizes {
  std::size_t l1 = 0;
  std::size_t l2 = 0;
  std::size_t l3 = 0;
};

/// How many cores there are for this process, and why. 0 where unknown.
struct CoreCounts {
  int affinity = 0;  ///< logical processors that the affinity mask allows
  int physical = 0;  ///< distinct physical cores among them
  int quota = 0;     ///< the cgroup's share of processor time, rounded up to cores; 0: no limit
  int usable = 1;    ///< the smallest of those known, at least 1: how many threads to compute with
};

struct CpuInfo {
  std::string vendor{};  ///< "AuthenticAMD", "GenuineIntel", "" where unknown
  std::string model{};   ///< the marketing name, "" where unknown
  CpuFeatures features{};
  CacheSizes caches{};
  CoreCounts cores{};
};

/// Asks the processor and the operating system. Runs no instruction that could be missing; whatever cannot be found out
/// keeps its default. Any thread. Throws only bad_alloc.
CpuInfo detect_cpu();

/// Asks Linux to let this process use AMX tiles: all its threads, those that are already there too, until it ends.
/// False where it refuses, or where there is nothing to ask for. From then on signal stacks of a thread's own
/// (sigaltstack) must have room for the tiles, 8 KiB more. Any thread, any number of times.
bool request_tiles() noexcept;

// ---- The parts, for tests ----

/// The registers that the x86 features are read from; a leaf that the processor does not have is 0.
struct X86Registers {
  std::uint32_t leaf1_ecx = 0;
  std::uint32_t leaf7_ebx = 0;
  std::uint32_t leaf7_ecx = 0;
  std::uint32_t leaf7_edx = 0;
  std::uint32_t leaf7_1_eax = 0;
  std::uint64_t xcr0 = 0;  ///< the registers that the operating system saves; 0 if the processor has no xgetbv
};
CpuFeatures decode_x86(const X86Registers& registers) noexcept;

/// From the two words of hardware capabilities that Linux gives an aarch64 process.
CpuFeatures decode_aarch64(std::uint64_t hwcap, std::uint64_t hwcap2) noexcept;

/// A list such as "0-3,8\n" as numbers. Stops at what it does not understand; at most 65,536 numbers.
std::vector<int> parse_cpu_list(std::string_view text);

/// A size such as "512K" or "32M" in bytes, 0 if it is none.
std::size_t parse_cache_size(std::string_view text) noexcept;

/// quota / period rounded up to cores; 0 (no limit) unless both are positive.
int quota_cores(std::int64_t quota, std::int64_t period) noexcept;

/// cgroup v2's cpu.max, "150000 100000" or "max 100000", as cores; 0: no limit.
int parse_cpu_max(std::string_view text) noexcept;

/// A process's cgroups of /proc/self/cgroup: paths below the mount point, empty optionals where there is none.
struct CgroupPaths {
  std::optional<std::string> unified{};  ///< v2
  std::optional<std::string> cpu{};      ///< v1, controller cpu
  std::optional<std::string> memory{};   ///< v1, controller memory
};
CgroupPaths parse_cgroup_paths(std::string_view text);

/// The cgroup's quota as cores, the tightest of the group and its parents; 0: no limit. `root` is where /proc and /sys
/// are: "/", or a test's folder.
int read_quota_cores(const std::filesystem::path& root);

/// Distinct physical cores among `cpus`, by /sys below `root`; 0 if it does not tell.
int read_physical_cores(const std::filesystem::path& root, const std::vector<int>& cpus);

/// Cache sizes of one processor, by /sys below `root`.
CacheSizes read_cache_sizes(const std::filesystem::path& root, int cpu);

/// `usable` from the other three.
int usable_cores(const CoreCounts& counts) noexcept;

}  // namespace llminfer::core
