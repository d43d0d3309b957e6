// The half of cpu_info that asks the processor.
#include <array>
#include <cstring>

#include "core/cpu_features.h"
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace llminfer::core {
namespace {

constexpr bool bit(std::uint64_t word, int index) noexcept { return ((word >> index) & 1u) != 0; }

// Bits of XCR0: which registers the operating system saves on a switch.
constexpr std::uint64_t xcr0_avx = 0x6;      // xmm, ymm
constexpr std::uint64_t xcr0_avx512 = 0xe6;  // and mask registers, zmm
constexpr std::uint64_t xcr0_amx = 0x60000;  // tile configuration, tile data

}  // namespace

CpuFeatures decode_x86(const X86Registers& registers) noexcept {
  CpuFeatures features;
  if (!bit(registers.leaf1_ecx, 27)) return features;  // OSXSAVE: without it no wide register is saved
  const auto saved = [&](std::uint64_t mask) { return (registers.xcr0 & mask) == mask; };
  if (saved(xcr0_avx) && bit(registers.leaf1_ecx, 28)) {  // 28: AVX
    features.avx2 = bit(registers.leaf7_ebx, 5);
    features.fma = bit(registers.leaf1_ecx, 12);
    features.f16c = bit(registers.leaf1_ecx, 29);
    features.avx_vnni = bit(registers.leaf7_1_eax, 4);
  }
  if (saved(xcr0_avx512) && bit(registers.leaf7_ebx, 16)) {
    features.avx512f = true;
    features.avx512dq = bit(registers.leaf7_ebx, 17);
    features.avx512bw = bit(registers.leaf7_ebx, 30);
    features.avx512vl = bit(registers.leaf7_ebx, 31);
    features.avx512_vnni = bit(registers.leaf7_ecx, 11);
    features.avx512_bf16 = bit(registers.leaf7_1_eax, 5);
  }
  if (saved(xcr0_amx) && bit(registers.leaf7_edx, 24)) {
    features.amx_tile = true;
    features.amx_bf16 = bit(registers.leaf7_edx, 22);
    features.amx_int8 = bit(registers.leaf7_edx, 25);
  }
  return features;
}

bool request_tiles() noexcept {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

CpuFeatures decode_aarch64(std::uint64_t hwcap, std::uint64_t hwcap2) noexcept {
  CpuFeatures features;
  features.neon_dotprod = bit(hwcap, 20);  // HWCAP_ASIMDDP
  features.neon_i8mm = bit(hwcap2, 13);    // HWCAP2_I8MM
  features.neon_bf16 = bit(hwcap2, 14);    // HWCAP2_BF16
  return features;
}

#if defined(__x86_64__) || defined(__i386__)

namespace {

struct Leaf {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// Zeros where the processor has no such leaf.
Leaf cpuid(std::uint32_t leaf, std::uint32_t subleaf = 0) noexcept {
  Leaf result;
  if (__get_cpuid_count(leaf, subleaf, &result.eax, &result.ebx, &result.ecx, &result.edx) == 0) return {};
  return result;
}

// Only where leaf 1 says OSXSAVE.
std::uint64_t xgetbv() noexcept {
  std::uint32_t low = 0, high = 0;
  __asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

std::string text_of(const std::uint32_t* words, std::size_t count) {
  std::string text(count * sizeof *words, '\0');
  std::memcpy(text.data(), words, text.size());
  const std::size_t end = text.find('\0');
  if (end != std::string::npos) text.resize(end);
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

}  // namespace

CpuFeatures detect_features() noexcept {
  X86Registers registers;
  registers.leaf1_ecx = cpuid(1).ecx;
  const Leaf leaf7 = cpuid(7);
  registers.leaf7_ebx = leaf7.ebx;
  registers.leaf7_ecx = leaf7.ecx;
  registers.leaf7_edx = leaf7.edx;
  if (leaf7.eax >= 1) registers.leaf7_1_eax = cpuid(7, 1).eax;
  if (bit(registers.leaf1_ecx, 27)) registers.xcr0 = xgetbv();
  return decode_x86(registers);
}

std::string detect_vendor() {
  const Leaf leaf = cpuid(0);
  const std::array<std::uint32_t, 3> words = {leaf.ebx, leaf.edx, leaf.ecx};
  return text_of(words.data(), words.size());
}

std::string detect_model() {
  std::array<std::uint32_t, 12> words{};
  for (std::uint32_t part = 0; part < 3; ++part) {
    const Leaf leaf = cpuid(0x80000002u + part);
    const std::array<std::uint32_t, 4> four = {leaf.eax, leaf.ebx, leaf.ecx, leaf.edx};
    std::memcpy(words.data() + 4 * part, four.data(), sizeof four);
  }
  return text_of(words.data(), words.size());
}

#elif defined(__aarch64__) && defined(__linux__)

CpuFeatures detect_features() noexcept { return decode_aarch64(::getauxval(AT_HWCAP), ::getauxval(AT_HWCAP2)); }
std::string detect_vendor() { return {}; }
std::string detect_model() { return "aarch64"; }

#else

CpuFeatures detect_features() noexcept { return {}; }
std::string detect_vendor() { return {}; }
std::string detect_model() { return {}; }

#endif

}  // namespace llminfer::core
