// Which kernels a processor gets: LLMINFER_EXPECTED_ISA, of whoever started this on an emulated one.
#include <cstdlib>
#include <llminfer/error.hpp>
#include <string>

#include "catch.h"
#include "core/cpu_info.h"
#include "device/cpu/kernels.h"
#include "device/cpu/target.h"

namespace llminfer::cpu::test {
namespace {

TEST_CASE("the best kernels of this processor are chosen") {
  const char* expected = std::getenv("LLMINFER_EXPECTED_ISA");
  REQUIRE(expected != nullptr);
  REQUIRE(std::string(choose_kernels("auto").name) == expected);
  const core::CpuFeatures features = core::detect_cpu().features;
  const std::string isa = expected;
  if (LLMINFER_CPU_NEON != 0) {
    REQUIRE(features.neon_i8mm == (isa == "i8mm"));
    REQUIRE(features.neon_dotprod == (isa != "neon"));
  } else {
    REQUIRE(features.avx512_vnni == (isa == "avx512" || isa == "avx512bf16"));
    REQUIRE(features.avx512_bf16 == (isa == "avx512bf16"));
    REQUIRE((features.avx_vnni || features.avx512_vnni));
    REQUIRE((choose_kernels("auto").default_kv == KvType::bf16) == features.avx512_bf16);
  }
}

TEST_CASE("kernels of another processor are refused") {
  const char* foreign = LLMINFER_CPU_NEON != 0 ? "avx2" : "neon";
  try {
    choose_kernels(foreign);
    FAIL(foreign);
  } catch (const Exception& error) {
    REQUIRE(error.error().code == ErrorCode::unavailable);
  }
}

}  // namespace
}  // namespace llminfer::cpu::test
