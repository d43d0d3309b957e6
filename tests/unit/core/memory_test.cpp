#include "core/memory.h"

#include <llminfer/error.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "catch.h"

using namespace llminfer;
using namespace llminfer::core;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

template <class F>
Error error_of(F&& call) {
  try {
    call();
  } catch (const Exception& exception) {
    return exception.error();
  }
  return Error{ErrorCode::cancelled, "nothing was thrown", "", 0, 0};
}

bool aligned(const void* pointer, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

TEST_CASE("counts follow allocations, small and mapped") {
  const auto memory = std::make_shared<Memory>();
  CHECK(memory->available_bytes() == std::numeric_limits<std::size_t>::max());
  {
    Buffer small = Buffer::make(memory, 1000);
    Buffer large = Buffer::make(memory, 5 * mib + 123);
    CHECK(memory->current_bytes() == 5 * mib + 1123);
    CHECK(memory->allocations() == 2);
    CHECK(aligned(small.data(), 64));
    CHECK(aligned(large.data(), 64));
    std::memset(small.data(), 1, small.size());
    std::memset(large.data(), 1, large.size());
    large = Buffer();
    CHECK(memory->current_bytes() == 1000);
    CHECK(memory->peak_bytes() == 5 * mib + 1123);
    memory->reset_peak();
    CHECK(memory->peak_bytes() == 1000);
  }
  CHECK(memory->current_bytes() == 0);
  CHECK(memory->allocations() == 2);
}

TEST_CASE("alignments beyond a page hold for both kinds of block") {
  for (const bool huge : {false, true}) {
    const auto memory = std::make_shared<Memory>(0, huge);
    for (std::size_t alignment = 1; alignment <= 8 * mib; alignment *= 2) {
      for (const std::size_t bytes : {std::size_t{100}, Memory::map_threshold, Memory::map_threshold + 4097}) {
        Buffer buffer = Buffer::make_zeroed(memory, bytes, alignment);
        CHECK(aligned(buffer.data(), alignment));
        CHECK(std::to_integer<int>(buffer.data()[0]) == 0);
        buffer.data()[bytes - 1] = std::byte{7};
      }
    }
    CHECK(memory->current_bytes() == 0);
  }
}

TEST_CASE("the limit refuses and says how much was left") {
  const auto memory = std::make_shared<Memory>(10 * mib);
  Buffer first = Buffer::make(memory, 6 * mib);
  const Error error = error_of([&] { Buffer::make(memory, 5 * mib); });
  CHECK(error.code == ErrorCode::out_of_memory);
  CHECK(error.needed == static_cast<std::int64_t>(5 * mib));
  CHECK(error.available == static_cast<std::int64_t>(4 * mib));
  CHECK(error.message == "out of memory: 5242880 bytes needed, 4194304 left of the limit of 10485760");
  CHECK(memory->current_bytes() == 6 * mib);
  CHECK(memory->available_bytes() == 4 * mib);
  Buffer exact = Buffer::make(memory, 4 * mib);
  CHECK(memory->available_bytes() == 0);
  CHECK(error_of([&] { Buffer::make(memory, 1); }).code == ErrorCode::out_of_memory);
}

TEST_CASE("sizes that no machine has are errors, not crashes") {
  const auto memory = std::make_shared<Memory>();
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {most, most - 4096, most / 2, std::size_t{1} << 62}) {
    const Error error = error_of([&] { Buffer::make(memory, bytes); });
    CHECK(error.code == ErrorCode::out_of_memory);
    CHECK(error.needed > 0);
  }
  CHECK(error_of([&] { Array<std::uint64_t>::make(memory, most / 4); }).code == ErrorCode::out_of_memory);
  CHECK(memory->current_bytes() == 0);
  CHECK(memory->allocations() == 0);
}

TEST_CASE("wrong arguments are typed errors") {
  CHECK(error_of([] { Buffer::make(nullptr, 10); }).code == ErrorCode::invalid_argument);
  const auto memory = std::make_shared<Memory>();
  CHECK(error_of([&] { Buffer::make(memory, 10, 48); }).code == ErrorCode::invalid_argument);
  CHECK(error_of([&] { Buffer::make(memory, 10, 0); }).code == ErrorCode::invalid_argument);
}

TEST_CASE("the n-th allocation fails once, then all succeed again") {
  const auto memory = std::make_shared<Memory>();
  memory->fail_at(3);
  std::vector<Buffer> kept;
  kept.push_back(Buffer::make(memory, 10));
  kept.push_back(Buffer::make(memory, 5 * mib));
  CHECK(memory->fail_pending());
  CHECK(error_of([&] { Buffer::make(memory, 5 * mib); }).code == ErrorCode::out_of_memory);
  CHECK_FALSE(memory->fail_pending());
  kept.push_back(Buffer::make(memory, 10));
  CHECK(memory->current_bytes() == 5 * mib + 20);
  CHECK(memory->allocations() == 3);

  memory->fail_at(1);
  memory->fail_at(0);
  kept.push_back(Buffer::make(memory, 10));
  CHECK(memory->allocations() == 4);
}

TEST_CASE("zeroed buffers are zero even where memory was used before") {
  const auto memory = std::make_shared<Memory>();
  for (const std::size_t bytes : {std::size_t{4096}, 5 * mib}) {
    for (int round = 0; round < 3; ++round) {
      Buffer buffer = Buffer::make_zeroed(memory, bytes);
      CHECK(all_zero(buffer.span()));
      std::memset(buffer.data(), 0xee, buffer.size());
    }
  }
}

TEST_CASE("an empty buffer allocates nothing; moves leave the source empty") {
  const auto memory = std::make_shared<Memory>();
  Buffer none = Buffer::make(memory, 0);
  CHECK(none.data() == nullptr);
  CHECK(none.empty());
  CHECK(memory->allocations() == 0);

  Buffer from = Buffer::make(memory, 256);
  std::byte* const data = from.data();
  Buffer to = std::move(from);
  CHECK(to.data() == data);
  CHECK(from.data() == nullptr);  // NOLINT(bugprone-use-after-move): the moved-from state is the subject
  CHECK(from.size() == 0);
  CHECK(to.span<float>().size() == 64);
  CHECK(std::as_const(to).span<double>().size() == 32);
}

TEST_CASE("a buffer keeps its memory alive") {
  auto memory = std::make_shared<Memory>();
  const std::weak_ptr<Memory> watch = memory;
  {
    Buffer buffer = Buffer::make(std::move(memory), 100);
    CHECK_FALSE(watch.expired());
  }
  CHECK(watch.expired());
}

TEST_CASE("arrays of plain data") {
  const auto memory = std::make_shared<Memory>();
  Array<std::int32_t> array = Array<std::int32_t>::make_zeroed(memory, 100);
  CHECK(memory->current_bytes() == 400);
  CHECK(std::count(array.begin(), array.end(), 0) == 100);
  array[99] = 5;
  Array<std::int32_t> moved = std::move(array);
  CHECK(array.size() == 0);  // NOLINT(bugprone-use-after-move)
  CHECK(moved.size() == 100);
  CHECK(moved.span().back() == 5);
  moved = Array<std::int32_t>();
  CHECK(memory->current_bytes() == 0);
}

TEST_CASE("below a pmr container") {
  Memory memory(1000);
  {
    std::pmr::vector<int> numbers(&memory);
    numbers.resize(100);
    CHECK(memory.current_bytes() == 400);
    CHECK(error_of([&] { numbers.resize(400); }).code == ErrorCode::out_of_memory);
    CHECK(numbers.size() == 100);
  }
  CHECK(memory.current_bytes() == 0);
}

TEST_CASE("counts and limit hold under concurrent use") {
  const std::size_t limit = 64 * 1000;
  const auto memory = std::make_shared<Memory>(limit);
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Buffer> kept;
      for (int i = 0; i < 2000; ++i) {
        try {
          kept.push_back(Buffer::make(memory, 1000 + static_cast<std::size_t>(t)));
        } catch (const Exception&) {
          refused.fetch_add(1);
          kept.clear();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(memory->current_bytes() == 0);
  CHECK(memory->peak_bytes() <= limit);
  CHECK(memory->allocations() + static_cast<std::uint64_t>(refused.load()) == 8000);
  CHECK(refused.load() > 0);
}
