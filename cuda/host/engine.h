// What a device and all that it made share: the stream, the lock, the count of bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "host/dense_gemm.h"

namespace llminfer::cuda {

class Engine {
 public:
  /// `cublas`: see DenseGemm. Throws not_found, unavailable, device_lost.
  explicit Engine(int index, std::vector<std::string> cublas = {});
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  /// Makes the device current for the calling thread. Before each use of the runtime.
  cudaError_t enter() const noexcept { return cudaSetDevice(index_); }

  int index() const noexcept { return index_; }
  cudaStream_t stream() const noexcept { return stream_; }
  const std::string& name() const noexcept { return name_; }
  const std::string& isa() const noexcept { return isa_; }
  std::uint64_t total_memory() const noexcept { return total_memory_; }
  int multiprocessors() const noexcept { return multiprocessors_; }
  /// Blocks that may be launched as a cluster; 1: the GPU has none.
  int most_of_cluster() const noexcept { return most_of_cluster_; }

  /// Held by who puts work on the stream or waits for it: while a step is recorded, whatever another thread puts there
  /// would become part of the recording instead of being done.
  std::mutex turn{};
  std::atomic<std::uint64_t> bytes{0};   ///< device and pinned memory held now
  std::atomic<std::uint64_t> caches{0};  ///< made so far
  DenseGemm gemm;                        ///< on the stream; used by who has the turn

 private:
  int index_;
  cudaStream_t stream_ = nullptr;
  std::string name_;
  std::string isa_;
  std::uint64_t total_memory_ = 0;
  int multiprocessors_ = 0;
  int most_of_cluster_ = 1;
};

/// Memory of the GPU or pinned memory of the host, owned and counted. Move-only.
class Memory {
 public:
  enum class Kind : std::uint8_t { device, pinned };

  Memory() noexcept = default;
  /// Throws out_of_memory. 0 bytes allocate nothing.
  Memory(std::shared_ptr<Engine> engine, Kind kind, std::uint64_t bytes);
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  std::uint8_t* data() const noexcept { return data_; }
  std::uint64_t size() const noexcept { return size_; }
  template <class T>
  T* at(std::uint64_t offset) const noexcept {
    return reinterpret_cast<T*>(data_ + offset);
  }

 private:
  void swap(Memory& other) noexcept;

  std::shared_ptr<Engine> engine_{};
  Kind kind_ = Kind::device;
  std::uint8_t* data_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace llminfer::cuda
