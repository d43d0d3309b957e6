// A device as a third party would write it, from the installed headers alone: plain loops in double precision, one
// thread, nothing fused. A skeleton to start from, and for the project's tests a second opinion on what ops mean.
#pragma once

#include <llminfer/backend/backend.hpp>

namespace naive {

/// What the device reads. Both return false for a type that they do not know.
struct Formats {
  /// n weights of a packed row to float.
  bool (*unpack)(llminfer::WeightType type, const std::byte* in, float* out, std::size_t n);
  /// One head's key or value as the cache would give it back.
  bool (*round_cached)(llminfer::KvType type, const float* in, std::int32_t width, float* out);
};

/// Float weights and a float cache: what a first version of a device may do.
Formats float_only();

std::shared_ptr<llminfer::backend::Backend> make_backend(Formats formats = float_only());

}  // namespace naive
