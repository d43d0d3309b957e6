// Uses the library as an application would, through its installed headers alone.
#include <cstdio>

#include <llminfer/error.hpp>
#include <llminfer/weight_type.hpp>

int main() {
  const auto& format = llminfer::describe(llminfer::WeightType::q4_0);
  std::printf("%s: %u weights in %u bytes\n", format.name.data(), format.block_size, format.block_bytes);
  try {
    llminfer::Result<int> nothing = llminfer::Error{llminfer::ErrorCode::not_found, "there is no model yet"};
    std::printf("%d\n", nothing.value());
  } catch (const llminfer::Exception& error) {
    std::printf("%s: %s\n", llminfer::to_string(error.error().code), error.what());
    return 0;
  }
  return 1;
}
