#include "core/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "core/checked.h"
#include "core/fail.h"

namespace llminfer::core {
namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

std::size_t page_bytes() noexcept {
  const long bytes = ::sysconf(_SC_PAGESIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 4096;
}

// Whole pages that hold `bytes`. What map_pages was given and what unmap_pages is given agree on it.
std::optional<std::size_t> mapped_bytes(std::size_t bytes) noexcept { return checked_align_up(bytes, page_bytes()); }

// Zeroed pages whose address is a multiple of `alignment`, or null. mmap itself only promises page alignment, so more
// is mapped and the ends are given back.
void* map_pages(std::size_t bytes, std::size_t alignment) noexcept {
  const std::size_t page = page_bytes();
  const std::optional<std::size_t> length = mapped_bytes(bytes);
  if (!length) return nullptr;
  const std::size_t slack = alignment > page ? alignment - page : 0;
  const std::optional<std::size_t> total = checked_add(*length, slack);
  if (!total) return nullptr;
  void* const mapping = ::mmap(nullptr, *total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  if (slack == 0) return mapping;
  char* const begin = static_cast<char*>(mapping);
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(begin) & (alignment - 1);
  const std::size_t head = misaligned == 0 ? 0 : alignment - misaligned;
  const std::size_t tail = slack - head;
  if (head > 0) ::munmap(begin, head);
  if (tail > 0) ::munmap(begin + head + *length, tail);
  return begin + head;
}

void unmap_pages(void* pointer, std::size_t bytes) noexcept {
  if (const std::optional<std::size_t> length = mapped_bytes(bytes)) ::munmap(pointer, *length);
}

void advise_huge_pages([[maybe_unused]] void* pointer, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef MADV_HUGEPAGE
  ::madvise(pointer, bytes, MADV_HUGEPAGE);  // best effort: a kernel without them serves ordinary pages
#endif
}

std::int64_t amount(std::size_t bytes) noexcept {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  return bytes > static_cast<std::size_t>(most) ? most : static_cast<std::int64_t>(bytes);
}

}  // namespace

Memory::Memory(std::size_t limit, bool huge_pages) noexcept : limit_(limit), huge_pages_(huge_pages) {}

std::size_t Memory::available_bytes() const noexcept {
  if (limit_ == 0) return std::numeric_limits<std::size_t>::max();
  return limit_ - std::min(limit_, current_bytes());
}

bool Memory::take_injected_failure() noexcept {
  if (fail_in_.load(std::memory_order_relaxed) <= 0) return false;
  return fail_in_.fetch_sub(1, std::memory_order_relaxed) == 1;
}

// Counts `bytes` in and gives the new total, or counts nothing where the limit would be passed.
std::optional<std::size_t> Memory::reserve(std::size_t bytes) noexcept {
  const std::size_t most = limit_ == 0 ? std::numeric_limits<std::size_t>::max() : limit_;
  std::size_t before = current_.load(std::memory_order_relaxed);
  do {
    if (bytes > most - before) return std::nullopt;
  } while (!current_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  return before + bytes;
}

void* Memory::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (!is_power_of_two(alignment)) {
    fail(ErrorCode::invalid_argument, "alignment {} is not a power of two", alignment);
  }
  const bool injected = take_injected_failure();
  const std::optional<std::size_t> total = injected ? 0 : reserve(bytes);
  if (!total) {
    const std::size_t available = available_bytes();
    fail_amount(ErrorCode::out_of_memory, amount(bytes), amount(available),
                "out of memory: {} bytes needed, {} left of the limit of {}", bytes, available, limit_);
  }
  void* pointer = nullptr;
  if (!injected && bytes >= map_threshold) {
    pointer = map_pages(bytes, huge_pages_ ? std::max(alignment, huge_page_bytes) : alignment);
    if (pointer != nullptr && huge_pages_) advise_huge_pages(pointer, bytes);
  } else if (!injected) {
    pointer = ::operator new (bytes, std::align_val_t{alignment}, std::nothrow);
  }
  if (pointer == nullptr) {
    if (!injected) current_.fetch_sub(bytes, std::memory_order_relaxed);
    fail_amount(ErrorCode::out_of_memory, amount(bytes), 0, "out of memory: the system refused {} bytes", bytes);
  }
  std::size_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < *total && !peak_.compare_exchange_weak(peak, *total, std::memory_order_relaxed)) {
  }
  allocations_.fetch_add(1, std::memory_order_relaxed);
  return pointer;
}

void Memory::do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) {
  if (pointer == nullptr) return;
  if (bytes >= map_threshold) {
    unmap_pages(pointer, bytes);
  } else {
    ::operator delete (pointer, std::align_val_t{alignment});
  }
  current_.fetch_sub(bytes, std::memory_order_relaxed);
}

Buffer::~Buffer() {
  if (data_ != nullptr) memory_->deallocate(data_, size_, alignment_);
}

Buffer Buffer::make(std::shared_ptr<Memory> memory, std::size_t bytes, std::size_t alignment) {
  if (!memory) fail(ErrorCode::invalid_argument, "memory is null");
  Buffer buffer;
  if (bytes > 0) buffer.data_ = static_cast<std::byte*>(memory->allocate(bytes, alignment));
  buffer.memory_ = std::move(memory);
  buffer.size_ = bytes;
  buffer.alignment_ = alignment;
  return buffer;
}

Buffer Buffer::make_zeroed(std::shared_ptr<Memory> memory, std::size_t bytes, std::size_t alignment) {
  Buffer buffer = make(std::move(memory), bytes, alignment);
  if (bytes > 0 && bytes < Memory::map_threshold) std::memset(buffer.data_, 0, bytes);
  return buffer;
}

std::size_t array_bytes(std::size_t count, std::size_t size) {
  if (const std::optional<std::size_t> bytes = checked_mul(count, size)) return *bytes;
  fail_amount(ErrorCode::out_of_memory, std::numeric_limits<std::int64_t>::max(), 0,
              "out of memory: {} values of {} bytes are more than this machine can address", count, size);
}

}  // namespace llminfer::core
