// Any bytes as a model file: an Exception or a model, nothing else.
#include <cstddef>
#include <cstdint>
#include <llminfer/error.hpp>

#include "support/gguf_cases.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    llminfer::test::load_like_a_model({reinterpret_cast<const std::byte*>(data), size});
  } catch (const llminfer::Exception&) {
    return 0;
  }
  return 0;
}
