// Memory that is counted: every large block of the library comes from a Memory that its owner was given, so that a
// limit holds, a plan can be compared with the truth, and a test can let any allocation fail.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace llminfer::core {

/// A counting allocator over the system, passed around by shared_ptr. Any thread may call anything at any time.
/// A refused allocation throws Exception{out_of_memory} with `needed` and `available` in bytes (available is 0 where
/// the system refused, which does not say how much it has), or bad_alloc if even the error's text finds no memory; the
/// counts are then as before. Also usable below std::pmr containers.
class Memory final : public std::pmr::memory_resource {
 public:
  /// Blocks of this size or more are pages of their own, zero at first, given back to the system when freed.
  static constexpr std::size_t map_threshold = std::size_t{4} << 20;

  /// `limit`: bytes that may be allocated at the same time, 0 for no limit. `huge_pages`: ask the kernel for huge pages
  /// behind blocks of map_threshold or more; where it has none, ordinary ones serve.
  explicit Memory(std::size_t limit = 0, bool huge_pages = false) noexcept;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() override = default;

  std::size_t limit() const noexcept { return limit_; }
  /// Bytes allocated now, and the most that ever were at the same time. Bytes as asked for, without rounding.
  std::size_t current_bytes() const noexcept { return current_.load(std::memory_order_relaxed); }
  std::size_t peak_bytes() const noexcept { return peak_.load(std::memory_order_relaxed); }
  /// Sets the peak to what is allocated now.
  void reset_peak() noexcept { peak_.store(current_bytes(), std::memory_order_relaxed); }
  /// Allocations that succeeded since construction. Equal before and after a call: the call allocated nothing here.
  std::uint64_t allocations() const noexcept { return allocations_.load(std::memory_order_relaxed); }
  /// Bytes that may still be allocated under the limit; the largest size_t where there is none.
  std::size_t available_bytes() const noexcept;

  /// For tests: the n-th allocation from now (1 = the next one) fails as if the system had refused it; those before and
  /// after succeed. n <= 0 turns this off.
  void fail_at(std::int64_t n) noexcept { fail_in_.store(n > 0 ? n : 0, std::memory_order_relaxed); }
  /// Whether a failure asked for by fail_at is still to come.
  bool fail_pending() const noexcept { return fail_in_.load(std::memory_order_relaxed) > 0; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  bool take_injected_failure() noexcept;
  std::optional<std::size_t> reserve(std::size_t bytes) noexcept;

  const std::size_t limit_;
  const bool huge_pages_;
  std::atomic<std::size_t> current_{0};
  std::atomic<std::size_t> peak_{0};
  std::atomic<std::uint64_t> allocations_{0};
  std::atomic<std::int64_t> fail_in_{0};
};

/// Bytes of a Memory, owned. Move-only; keeps the Memory alive; freed on destruction.
class Buffer {
 public:
  /// Cache line, and the widest vector register.
  static constexpr std::size_t default_alignment = 64;

  Buffer() noexcept = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  /// `bytes` bytes of unspecified content. 0 bytes allocate nothing and data() is null. Throws as Memory does;
  /// invalid_argument if `memory` is null or `alignment` is not a power of two.
  static Buffer make(std::shared_ptr<Memory> memory, std::size_t bytes, std::size_t alignment = default_alignment);
  /// As make, all bytes zero. Does not touch the pages of a large buffer.
  static Buffer make_zeroed(std::shared_ptr<Memory> memory, std::size_t bytes,
                            std::size_t alignment = default_alignment);

  std::byte* data() noexcept { return data_; }
  const std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  const std::shared_ptr<Memory>& memory() const noexcept { return memory_; }

  /// All whole Ts that fit. T's alignment must not exceed the buffer's.
  template <class T = std::byte>
  std::span<T> span() noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    return {reinterpret_cast<T*>(data_), size_ / sizeof(T)};
  }
  template <class T = std::byte>
  std::span<const T> span() const noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    return {reinterpret_cast<const T*>(data_), size_ / sizeof(T)};
  }

  void swap(Buffer& other) noexcept {
    memory_.swap(other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(alignment_, other.alignment_);
  }

 private:
  std::shared_ptr<Memory> memory_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t alignment_ = default_alignment;
};

/// count * size bytes; throws Exception{out_of_memory} if that does not fit a size_t.
std::size_t array_bytes(std::size_t count, std::size_t size);

/// A fixed number of Ts in a Buffer. Move-only. T is plain data: nothing is constructed or destroyed.
template <class T>
class Array {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  static constexpr std::size_t alignment = alignof(T) > Buffer::default_alignment ? alignof(T)
                                                                                  : Buffer::default_alignment;

 public:
  using value_type = T;

  Array() noexcept = default;
  Array(Array&& other) noexcept : buffer_(std::move(other.buffer_)), size_(std::exchange(other.size_, 0)) {}
  Array& operator=(Array&& other) noexcept {
    buffer_ = std::move(other.buffer_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() = default;

  /// `count` values of unspecified content. Throws as Buffer::make does.
  static Array make(std::shared_ptr<Memory> memory, std::size_t count) {
    return Array(Buffer::make(std::move(memory), array_bytes(count, sizeof(T)), alignment), count);
  }
  /// As make, all bytes zero.
  static Array make_zeroed(std::shared_ptr<Memory> memory, std::size_t count) {
    return Array(Buffer::make_zeroed(std::move(memory), array_bytes(count, sizeof(T)), alignment), count);
  }

  T* data() noexcept { return reinterpret_cast<T*>(buffer_.data()); }
  const T* data() const noexcept { return reinterpret_cast<const T*>(buffer_.data()); }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T& operator[](std::size_t index) noexcept { return data()[index]; }
  const T& operator[](std::size_t index) const noexcept { return data()[index]; }
  T* begin() noexcept { return data(); }
  T* end() noexcept { return data() + size_; }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size_; }
  std::span<T> span() noexcept { return {data(), size_}; }
  std::span<const T> span() const noexcept { return {data(), size_}; }

 private:
  Array(Buffer buffer, std::size_t count) noexcept : buffer_(std::move(buffer)), size_(count) {}

  Buffer buffer_;
  std::size_t size_ = 0;
};

}  // namespace llminfer::core
