#include "core/checked.h"

#include <cstdint>
#include <limits>
#include <string>

#include "catch.h"

using namespace llminfer;
using namespace llminfer::core;

namespace {

constexpr std::uint64_t u64_max = std::numeric_limits<std::uint64_t>::max();
constexpr std::int64_t i64_max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t i64_min = std::numeric_limits<std::int64_t>::min();

template <class F>
Error error_of(F&& call) {
  try {
    call();
  } catch (const Exception& exception) {
    return exception.error();
  }
  return Error{ErrorCode::cancelled, "nothing was thrown", "", 0, 0};
}

static_assert(checked_add<std::uint64_t>(2, 3) == 5u);
static_assert(!checked_mul<std::int64_t>(i64_min, -1));

}  // namespace

TEST_CASE("sums, differences and products at the edges of 64 bits") {
  CHECK(checked_add<std::uint64_t>(u64_max - 1, 1) == u64_max);
  CHECK_FALSE(checked_add<std::uint64_t>(u64_max, 1));
  CHECK_FALSE(checked_add<std::int64_t>(i64_max, 1));
  CHECK_FALSE(checked_add<std::int64_t>(i64_min, -1));
  CHECK(checked_add<std::int64_t>(i64_min, i64_max) == -1);
  CHECK_FALSE(checked_sub<std::uint64_t>(0, 1));
  CHECK(checked_sub<std::int64_t>(0, 1) == -1);
  CHECK(checked_mul<std::uint64_t>(std::uint64_t{1} << 32, (std::uint64_t{1} << 32) - 1) == 0xffffffff00000000u);
  CHECK_FALSE(checked_mul<std::uint64_t>(std::uint64_t{1} << 32, std::uint64_t{1} << 32));
  CHECK_FALSE(checked_mul<std::int64_t>(i64_max / 2 + 1, 2));
  CHECK(checked_mul<std::uint64_t>(0, u64_max) == 0u);
}

TEST_CASE("align up") {
  CHECK(checked_align_up<std::uint64_t>(0, 64) == 0u);
  CHECK(checked_align_up<std::uint64_t>(1, 64) == 64u);
  CHECK(checked_align_up<std::uint64_t>(64, 64) == 64u);
  CHECK(checked_align_up<std::uint64_t>(65, 1) == 65u);
  CHECK(checked_align_up<std::uint64_t>(u64_max - 63, 64) == u64_max - 63);
  CHECK_FALSE(checked_align_up<std::uint64_t>(u64_max - 62, 64));
  CHECK_FALSE(checked_align_up<std::uint64_t>(10, 0));
  CHECK_FALSE(checked_align_up<std::uint64_t>(10, 48));
  CHECK_FALSE(checked_align_up<std::int64_t>(-1, 64));
  CHECK_FALSE(checked_align_up<std::int64_t>(1, -64));
  CHECK(divide_up<std::uint64_t>(u64_max, 2) == (u64_max >> 1) + 1);
  CHECK(divide_up<std::int64_t>(0, 7) == 0);
}

TEST_CASE("casts keep the value or say no") {
  CHECK(checked_cast<std::int32_t>(std::uint64_t{2147483647}) == 2147483647);
  CHECK_FALSE(checked_cast<std::int32_t>(std::uint64_t{2147483648}));
  CHECK_FALSE(checked_cast<std::uint64_t>(std::int64_t{-1}));
  CHECK(checked_cast<std::int64_t>(std::int32_t{-5}) == -5);
}

TEST_CASE("the throwing forms name the quantity and the values") {
  CHECK(add_or_fail<std::uint64_t>(40, 2, "x") == 42u);
  CHECK(sub_or_fail<std::int64_t>(40, 42, "x") == -2);
  CHECK(mul_or_fail<std::int64_t>(-6, 7, "x") == -42);
  CHECK(align_up_or_fail<std::size_t>(33, 32, "x") == 64u);
  CHECK(cast_or_fail<int>(std::uint64_t{7}, "x") == 7);

  const Error product = error_of([] { mul_or_fail<std::uint64_t>(u64_max, 2, "elements of tensor"); });
  CHECK(product.code == ErrorCode::corrupt);
  CHECK(product.message == "elements of tensor: 18446744073709551615 * 2 is out of range");
  const Error sum = error_of([] { add_or_fail<std::int64_t>(i64_max, 1, "context", ErrorCode::invalid_argument); });
  CHECK(sum.code == ErrorCode::invalid_argument);
  CHECK(sum.message == "context: 9223372036854775807 + 1 is out of range");
  CHECK(error_of([] { sub_or_fail<std::uint64_t>(1, 2, "rest"); }).message == "rest: 1 - 2 is out of range");
  CHECK(error_of([] { align_up_or_fail<std::uint64_t>(1, 3, "offset"); }).message ==
        "offset: 1 aligned to 3 is out of range");
  CHECK(error_of([] { cast_or_fail<std::int32_t>(std::int64_t{-3000000000}, "layers"); }).message ==
        "layers: -3000000000 as an integer up to 2147483647 is out of range");
}
