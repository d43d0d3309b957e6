// Every malformed file gives its typed error, which names the key or tensor and the value, in bounded memory.
#include <atomic>
#include <cstdlib>
#include <new>

#include "catch.h"
#include "format/model_file.h"
#include "support/cpu_time.h"
#include "support/gguf_cases.h"

namespace {

std::atomic<std::size_t> largest_allocation{0};

void note(std::size_t size) {
  std::size_t before = largest_allocation.load();
  while (size > before && !largest_allocation.compare_exchange_weak(before, size)) {
  }
}

}  // namespace

// This program's own allocator: the same as the usual one, but it remembers the largest request.
void* operator new(std::size_t size) {
  note(size);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  note(size);
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace llminfer::test {
namespace {

struct Outcome {
  bool loaded = false;
  ErrorCode code = ErrorCode::invalid_argument;
  std::string message;
};

Outcome load(std::span<const std::byte> file) {
  try {
    load_like_a_model(file);
    return {true, {}, {}};
  } catch (const Exception& exception) {
    return {false, exception.error().code, exception.error().message};
  }
}

TEST_CASE("the file that the malformed ones are made of loads") {
  const Outcome outcome = load(tiny_llama().build());
  INFO(outcome.message);
  CHECK(outcome.loaded);
}

TEST_CASE("malformed files give typed errors that name what is wrong") {
  for (const GgufCase& malformed : malformed_cases()) {
    INFO(malformed.name);
    largest_allocation = 0;
    const double start = test::cpu_seconds();
    const Outcome outcome = load(malformed.file);
    const double seconds = test::cpu_seconds() - start;
    const std::size_t largest = largest_allocation;
    INFO(outcome.message);
    CHECK_FALSE(outcome.loaded);
    CHECK(std::string(to_string(outcome.code)) == to_string(malformed.code));
    for (const std::string& part : malformed.said) {
      INFO("to be said: " << part);
      CHECK(outcome.message.find(part) != std::string::npos);
    }
    CHECK(largest < (std::size_t{1} << 20));
    CHECK(seconds < 2.0);
  }
}

TEST_CASE("a valid file cut at any byte is an error") {
  const Bytes whole = tiny_llama().build();
  REQUIRE(whole.size() > 4096);
  for (std::size_t length = 0; length < 4096; ++length) {
    // A copy of that very size, so that the address sanitizer sees every read beyond it.
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    const Outcome outcome = load(cut);
    if (outcome.loaded || outcome.code != ErrorCode::truncated) {
      FAIL_CHECK("cut at " << length << ": " << to_string(outcome.code) << ", " << outcome.message);
    }
  }
  const Outcome outcome = load(std::span(whole).first(whole.size() - 1));
  CHECK(std::string(to_string(outcome.code)) == "truncated");
}

TEST_CASE("a valid file with any one byte changed loads or gives an error") {
  const Bytes whole = tiny_llama().build();
  int refused = 0;
  for (std::size_t at = 0; at < 2600; ++at) {
    for (const unsigned change : {0x01U, 0x80U, 0xFFU}) {
      Bytes changed = whole;
      changed[at] ^= static_cast<std::byte>(change);
      if (!load(changed).loaded) ++refused;
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("the malformed files bring out every error of a loader") {
  for (const ErrorCode code : {ErrorCode::not_found, ErrorCode::not_gguf, ErrorCode::truncated, ErrorCode::corrupt,
                               ErrorCode::unsupported_type, ErrorCode::unsupported_architecture, ErrorCode::mismatch}) {
    int seen = 0;
    for (const GgufCase& malformed : malformed_cases()) seen += load(malformed.file).code == code ? 1 : 0;
    INFO(to_string(code));
    CHECK(seen > 0);
  }
}

}  // namespace
}  // namespace llminfer::test
