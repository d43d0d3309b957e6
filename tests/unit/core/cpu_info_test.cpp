#include "core/cpu_info.h"
#include "core/memory_info.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "catch.h"
#if defined(__linux__)
#include <sys/syscall.h>
#endif

using namespace llminfer::core;

namespace {

// A folder that plays the part of "/".
class FakeRoot {
 public:
  FakeRoot() {
    std::string name = (std::filesystem::temp_directory_path() / "llminfer-root-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~FakeRoot() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  void write(const std::string& file, const std::string& content) const {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file, std::ios::binary) << content;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

constexpr std::uint32_t bit(int index) { return std::uint32_t{1} << index; }

// A processor that has everything, under an operating system that saves everything.
constexpr X86Registers everything = {.leaf1_ecx = ~0u,
                                     .leaf7_ebx = ~0u,
                                     .leaf7_ecx = ~0u,
                                     .leaf7_edx = ~0u,
                                     .leaf7_1_eax = ~0u,
                                     .xcr0 = ~std::uint64_t{0}};

}  // namespace

TEST_CASE("x86 features need the processor and the operating system") {
  CHECK(decode_x86({}) == CpuFeatures{});

  const CpuFeatures all = decode_x86(everything);
  CHECK((all.avx2 && all.fma && all.f16c && all.avx_vnni));
  CHECK((all.avx512f && all.avx512bw && all.avx512dq && all.avx512vl && all.avx512_vnni && all.avx512_bf16));
  CHECK((all.amx_tile && all.amx_int8 && all.amx_bf16));
  CHECK_FALSE((all.neon_dotprod || all.neon_i8mm || all.neon_bf16));

  X86Registers registers = everything;
  registers.leaf1_ecx &= ~bit(27);  // no OSXSAVE
  CHECK(decode_x86(registers) == CpuFeatures{});

  registers = everything;
  registers.xcr0 = 0x7;  // an operating system that saves ymm but not zmm
  const CpuFeatures no_zmm = decode_x86(registers);
  CHECK((no_zmm.avx2 && no_zmm.fma && no_zmm.avx_vnni));
  CHECK_FALSE((no_zmm.avx512f || no_zmm.avx512_vnni || no_zmm.avx512_bf16 || no_zmm.amx_tile || no_zmm.amx_int8));

  registers.xcr0 = 0x3;  // not even ymm
  CHECK(decode_x86(registers) == CpuFeatures{});

  registers = everything;
  registers.xcr0 = 0xe7;  // zmm, no tiles
  CHECK(decode_x86(registers).avx512_vnni);
  CHECK_FALSE(decode_x86(registers).amx_int8);
}

TEST_CASE("x86 features are told apart") {
  X86Registers zen3 = {.leaf1_ecx = bit(12) | bit(27) | bit(28) | bit(29), .leaf7_ebx = bit(5), .xcr0 = 0x7};
  const CpuFeatures features = decode_x86(zen3);
  CHECK(features == CpuFeatures{.avx2 = true, .fma = true, .f16c = true});
  zen3.leaf1_ecx &= ~bit(12);
  CHECK_FALSE(decode_x86(zen3).fma);

  const X86Registers skylake = {
      .leaf1_ecx = bit(27) | bit(28), .leaf7_ebx = bit(16) | bit(17) | bit(30) | bit(31), .xcr0 = 0xe7};
  CHECK(decode_x86(skylake) == CpuFeatures{.avx512f = true, .avx512bw = true, .avx512dq = true, .avx512vl = true});
}

TEST_CASE("aarch64 features from the kernel's words") {
  CHECK(decode_aarch64(0, 0) == CpuFeatures{});
  CHECK(decode_aarch64(bit(20), 0) == CpuFeatures{.neon_dotprod = true});
  CHECK(decode_aarch64(0, bit(13) | bit(14)) == CpuFeatures{.neon_i8mm = true, .neon_bf16 = true});
}

TEST_CASE("lists of processors") {
  CHECK(parse_cpu_list("0\n") == std::vector<int>{0});
  CHECK(parse_cpu_list("0-3,8,10-11\n") == std::vector<int>{0, 1, 2, 3, 8, 10, 11});
  CHECK(parse_cpu_list("").empty());
  CHECK(parse_cpu_list("none").empty());
  CHECK(parse_cpu_list("5-2,7") == std::vector<int>{7});
  CHECK(parse_cpu_list("1,-4") == std::vector<int>{1});
  CHECK(parse_cpu_list("1-").empty());
  CHECK(parse_cpu_list("99999999999999999999").empty());
  CHECK(parse_cpu_list("0-4000000000000000000").size() == 65536);
  CHECK(parse_cpu_list("2147483647-9223372036854775807") == std::vector<int>{2147483647});
}

TEST_CASE("cache sizes") {
  CHECK(parse_cache_size("32K\n") == 32768);
  CHECK(parse_cache_size("2M") == 2097152);
  CHECK(parse_cache_size("64") == 64);
  CHECK(parse_cache_size("") == 0);
  CHECK(parse_cache_size("-1K") == 0);
  CHECK(parse_cache_size("9223372036854775807M") == 0);
  CHECK(parse_cache_size("12 apples") == 0);
}

TEST_CASE("quotas round up to cores") {
  CHECK(quota_cores(-1, 100000) == 0);
  CHECK(quota_cores(0, 100000) == 0);
  CHECK(quota_cores(100000, 0) == 0);
  CHECK(quota_cores(50000, 100000) == 1);
  CHECK(quota_cores(200000, 100000) == 2);
  CHECK(quota_cores(200001, 100000) == 3);
  CHECK(quota_cores(9223372036854775807, 1) == 65536);
  CHECK(parse_cpu_max("max 100000\n") == 0);
  CHECK(parse_cpu_max("150000 100000\n") == 2);
  CHECK(parse_cpu_max("150000") == 0);
  CHECK(parse_cpu_max("") == 0);
}

TEST_CASE("a process's cgroups") {
  const CgroupPaths v2 = parse_cgroup_paths("0::/user.slice/app:x.scope\n");
  CHECK(v2.unified == std::optional<std::string>("/user.slice/app:x.scope"));
  CHECK_FALSE(v2.cpu.has_value());
  const CgroupPaths v1 = parse_cgroup_paths("12:memory:/m\n5:cpuset:/no\n4:cpuacct,cpu:/docker/abc\n");
  CHECK(v1.cpu == std::optional<std::string>("/docker/abc"));
  CHECK(v1.memory == std::optional<std::string>("/m"));
  CHECK_FALSE(v1.unified.has_value());
  CHECK_FALSE(parse_cgroup_paths("garbage\n\n:::").cpu.has_value());
  CHECK_FALSE(parse_cgroup_paths("").unified.has_value());
}

TEST_CASE("the tightest quota of a v2 group and its parents") {
  const FakeRoot root;
  CHECK(read_quota_cores(root.path()) == 0);
  root.write("proc/self/cgroup", "0::/a/b/c\n");
  CHECK(read_quota_cores(root.path()) == 0);
  root.write("sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/a/b/cpu.max", "800000 100000\n");
  CHECK(read_quota_cores(root.path()) == 8);
  root.write("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  CHECK(read_quota_cores(root.path()) == 3);
  root.write("proc/self/cgroup", "0::/../elsewhere\n");
  CHECK(read_quota_cores(root.path()) == 0);
}

TEST_CASE("a container's own v2 group is the mount point") {
  const FakeRoot root;
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  CHECK(read_quota_cores(root.path()) == 4);
  root.write("proc/self/cgroup", "0::/path/of/the/host\n");
  CHECK(read_quota_cores(root.path()) == 4);
}

TEST_CASE("v1 quotas") {
  const FakeRoot root;
  root.write("proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n0::/\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(read_quota_cores(root.path()) == 0);
  root.write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "150000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "50000\n");
  CHECK(read_quota_cores(root.path()) == 3);
}

TEST_CASE("physical cores among the allowed processors, and caches") {
  const FakeRoot root;
  const std::string folder = "sys/devices/system/cpu/cpu";
  CHECK(read_physical_cores(root.path(), {0, 1}) == 0);
  for (int cpu = 0; cpu < 8; ++cpu) {  // four cores of two threads: n and n + 4
    const std::string core = std::to_string(cpu % 4);
    root.write(folder + std::to_string(cpu) + "/topology/thread_siblings_list",
               core + "," + std::to_string(cpu % 4 + 4) + "\n");
  }
  CHECK(read_physical_cores(root.path(), {0, 1, 2, 3, 4, 5, 6, 7}) == 4);
  CHECK(read_physical_cores(root.path(), {1, 5, 6}) == 2);
  CHECK(read_physical_cores(root.path(), {1, 20}) == 0);

  const char* const caches[][3] = {
      {"1", "Data", "48K"}, {"1", "Instruction", "32K"}, {"2", "Unified", "2048K"}, {"3", "Unified", "36M"}};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string index = folder + "0/cache/index" + std::to_string(i) + "/";
    root.write(index + "level", std::string(caches[i][0]) + "\n");
    root.write(index + "type", std::string(caches[i][1]) + "\n");
    root.write(index + "size", std::string(caches[i][2]) + "\n");
  }
  const CacheSizes sizes = read_cache_sizes(root.path(), 0);
  CHECK(sizes.l1 == 49152);
  CHECK(sizes.l2 == std::size_t{2} << 20);
  CHECK(sizes.l3 == std::size_t{36} << 20);
  CHECK(read_cache_sizes(root.path(), 1).l2 == 0);
}

TEST_CASE("usable cores are the smallest known number, and at least one") {
  CHECK(usable_cores({}) == 1);
  CHECK(usable_cores({.affinity = 8}) == 8);
  CHECK(usable_cores({.affinity = 8, .physical = 4}) == 4);
  CHECK(usable_cores({.affinity = 8, .physical = 4, .quota = 3}) == 3);
  CHECK(usable_cores({.affinity = 2, .quota = 16}) == 2);
}

TEST_CASE("tiles are granted where the processor has them, to threads that are there already too") {
  const bool granted = request_tiles();
  CHECK(request_tiles() == granted);
  if (!detect_cpu().features.amx_tile) CHECK_FALSE(granted);
#if defined(__linux__) && defined(__x86_64__)
  unsigned long mask = 0;
  constexpr long get_permission = 0x1022;  // ARCH_GET_XCOMP_PERM
  std::thread other([&] {
    if (::syscall(SYS_arch_prctl, get_permission, &mask) != 0) mask = 0;
  });
  other.join();
  CHECK(((mask >> 18 & 1) != 0) == granted);
#endif
}

TEST_CASE("this machine") {
  const CpuInfo info = detect_cpu();
  CHECK(info.cores.usable >= 1);
  CHECK(info.cores.usable <= static_cast<int>(std::thread::hardware_concurrency()));
  CHECK(info.cores.physical <= info.cores.affinity);
#if defined(__x86_64__)
  CHECK_FALSE(info.vendor.empty());
  CHECK(info.features.avx2 == (__builtin_cpu_supports("avx2") != 0));
  CHECK(info.features.fma == (__builtin_cpu_supports("fma") != 0));
  CHECK(info.features.avx512f == (__builtin_cpu_supports("avx512f") != 0));
  CHECK(info.features.avx512bw == (__builtin_cpu_supports("avx512bw") != 0));
  CHECK(info.features.avx512dq == (__builtin_cpu_supports("avx512dq") != 0));
  CHECK(info.features.avx512vl == (__builtin_cpu_supports("avx512vl") != 0));
  CHECK(info.features.avx512_vnni == (__builtin_cpu_supports("avx512vnni") != 0));
  CHECK(info.features.avx512_bf16 == (__builtin_cpu_supports("avx512bf16") != 0));
#endif
  WARN("vendor '" << info.vendor << "', model '" << info.model << "', avx2 " << info.features.avx2 << ", avx512f "
                  << info.features.avx512f << ", caches " << info.caches.l1 << " " << info.caches.l2 << " "
                  << info.caches.l3 << ", affinity " << info.cores.affinity << ", physical " << info.cores.physical
                  << ", quota " << info.cores.quota << ", usable " << info.cores.usable);
}

TEST_CASE("memory that is left, by the kernel and by cgroups") {
  CHECK(parse_meminfo("MemTotal:  100 kB\nMemAvailable:    50 kB\n", "MemAvailable") == 50 * 1024);
  CHECK(parse_meminfo("MemAvailableX: 50 kB\n", "MemAvailable") == 0);
  CHECK(parse_meminfo("MemAvailable: 18446744073709551615 kB\n", "MemAvailable") == 0);
  const FakeRoot root;
  CHECK(available_memory(root.path()) == 0);
  root.write("proc/meminfo", "MemTotal: 4000 kB\nMemAvailable: 3000 kB\n");
  CHECK(available_memory(root.path()) == 3000 * 1024);
  root.write("proc/self/cgroup", "0::/a/b\n");
  root.write("sys/fs/cgroup/a/b/memory.max", "max\n");
  root.write("sys/fs/cgroup/a/b/memory.current", "70000\n");
  CHECK(available_memory(root.path()) == 3000 * 1024);
  root.write("sys/fs/cgroup/a/memory.max", "1000000\n");
  root.write("sys/fs/cgroup/a/memory.current", "900000\n");
  CHECK(available_memory(root.path()) == 100000);
  root.write("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 300000\n");
  CHECK(available_memory(root.path()) == 400000);
  root.write("sys/fs/cgroup/a/memory.current", "2000000\n");  // over its limit
  CHECK(available_memory(root.path()) == 0);
  root.write("proc/self/cgroup", "3:memory:/m\n");
  root.write("sys/fs/cgroup/memory/m/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("sys/fs/cgroup/memory/m/memory.usage_in_bytes", "5000\n");
  CHECK(available_memory(root.path()) == 3000 * 1024);
  root.write("sys/fs/cgroup/memory/m/memory.limit_in_bytes", "8000\n");
  CHECK(available_memory(root.path()) == 3000);
  CHECK(available_memory() > 1 << 20);
}
