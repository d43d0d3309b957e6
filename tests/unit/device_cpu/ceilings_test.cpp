// What memory's rate is measured with.
#include "device/cpu/ceilings.h"

#include "catch.h"

namespace llminfer::cpu::test {
namespace {

TEST_CASE("memory is measured with more than the last cache holds, within bounds") {
  constexpr std::size_t mib = std::size_t{1} << 20;
  CHECK(ceilings_buffer({}) == 256 * mib);
  CHECK(ceilings_buffer({32 << 10, 1 * mib, 32 * mib}) == 256 * mib);
  CHECK(ceilings_buffer({32 << 10, 2 * mib, 300 * mib}) == 450 * mib);
  CHECK(ceilings_buffer({32 << 10, 2 * mib, 1152 * mib}) == 1024 * mib);
  CHECK(ceilings_buffer({32 << 10, 512 * mib, 0}) == 768 * mib);
  CHECK(ceilings_buffer({0, 0, ~std::size_t{0}}) == 1024 * mib);
}

}  // namespace
}  // namespace llminfer::cpu::test
