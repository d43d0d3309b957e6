#include "runtime/page_pool.h"

#include "catch.h"

using llminfer::runtime::PagePool;

TEST_CASE("pages come and go by reference count") {
  PagePool pool(3);
  CHECK(pool.take() == 0);
  CHECK(pool.take() == 1);
  pool.share(0);
  CHECK(pool.free() == 1);
  pool.release(0);
  CHECK(pool.free() == 1);
  pool.release(0);
  CHECK(pool.free() == 2);
  CHECK(pool.take() == 0);
  CHECK(pool.take() == 2);
  CHECK(pool.take() == -1);
  CHECK(pool.invariants(std::vector<std::int32_t>{1, 1, 1}).empty());
  CHECK_FALSE(pool.invariants(std::vector<std::int32_t>{1, 2, 1}).empty());
  CHECK_FALSE(pool.invariants(std::vector<std::int32_t>{1, 1}).empty());
}
