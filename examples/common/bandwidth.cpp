#include "bandwidth.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "stopwatch.h"

namespace examples {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{512} << 20;
constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t streams = 4;  // one stream leaves the memory channels waiting on many processors
constexpr std::size_t lanes = 8;    // 64 bytes: a cache line of each stream at a time

// Sums of eight columns per stream are independent, so additions never wait for one another.
std::uint64_t read(const std::uint64_t* data, std::size_t words) {
  const std::size_t length = words / streams;
  std::uint64_t sums[streams][lanes] = {};
  for (std::size_t i = 0; i < length; i += lanes) {
    for (std::size_t s = 0; s < streams; ++s) {
      for (std::size_t k = 0; k < lanes; ++k) sums[s][k] += data[s * length + i + k];
    }
  }
  std::uint64_t total = 0;
  for (const auto& stream : sums) {
    for (const std::uint64_t sum : stream) total += sum;
  }
  return total;
}

std::uint64_t* allocate() {
  void* memory = std::aligned_alloc(huge_page, buffer_bytes);
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  (void)madvise(memory, buffer_bytes, MADV_HUGEPAGE);  // as weights are kept; without them it is slower, not wrong
#endif
  std::memset(memory, 1, buffer_bytes);
  return static_cast<std::uint64_t*>(memory);
}

}  // namespace

void ReadBandwidth::Free::operator()(std::uint64_t* buffer) const noexcept { std::free(buffer); }

ReadBandwidth::ReadBandwidth(int threads) : threads_(std::max(threads, 1)), buffer_(allocate()) {}

double ReadBandwidth::measure() {
  const std::size_t block = streams * lanes;
  const std::size_t words = buffer_bytes / sizeof(std::uint64_t) / static_cast<std::size_t>(threads_) / block * block;
  std::atomic<int> waiting{threads_};
  std::atomic<std::uint64_t> sum{0};
  const auto work = [&](int thread) {
    waiting.fetch_sub(1);
    while (waiting.load() > 0) std::this_thread::yield();
    sum += read(buffer_.get() + static_cast<std::size_t>(thread) * words, words);
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads_; ++thread) others.emplace_back(work, thread);
  while (waiting.load() > 1) std::this_thread::yield();
  const Stopwatch watch;
  work(0);
  for (std::thread& other : others) other.join();
  const double seconds = watch.seconds();
  sum_ += sum;
  return static_cast<double>(words * sizeof(std::uint64_t)) * threads_ / seconds;
}

}  // namespace examples
