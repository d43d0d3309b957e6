// How fast this machine reads memory: the ceiling of decoding.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace examples {

/// A buffer much larger than the caches (512 MiB), read by `threads` threads, each its own part in four streams.
class ReadBandwidth {
 public:
  explicit ReadBandwidth(int threads);

  /// Bytes per second of one pass over the buffer, by wall clock: from the moment all threads are ready until the last
  /// one is done.
  double measure();

 private:
  struct Free {
    void operator()(std::uint64_t* buffer) const noexcept;
  };
  int threads_;
  std::unique_ptr<std::uint64_t, Free> buffer_;
  std::uint64_t sum_ = 0;  // of everything read, so that reading is not optimized away
};

}  // namespace examples
