// Which kernels a processor gets: LLMINFER_EXPECTED_ISA, of whoever started this on an emulated one.
#include <cstdlib>
#include <llminfer/error.hpp>
#include <string>

#include "catch.h"
#include "core/cpu_info.h"
#include "device/cpu/kernels.h"

namespace llminfer::cpu::test {
namespace {

TEST_CASE("the best kernels of this processor are chosen") {
  const char* expected = std::getenv("LLMINFER_EXPECTED_ISA");
  REQUIRE(expected != nullptr);
  REQUIRE(std::string(choose_kernels("auto").name) == expected);
  const core::CpuFeatures features = core::detect_cpu().features;
  const std::string isa = expected;
  REQUIRE(features.neon_i8mm == (isa == "i8mm"));
  REQUIRE(features.neon_dotprod == (isa != "neon"));
}

TEST_CASE("kernels of another processor are refused") {
  try {
    choose_kernels("avx2");
    FAIL("avx2 on aarch64");
  } catch (const Exception& error) {
    REQUIRE(error.error().code == ErrorCode::unavailable);
  }
}

}  // namespace
}  // namespace llminfer::cpu::test
