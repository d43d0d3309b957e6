#include "core/futex.h"

#include <sched.h>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <climits>

namespace llminfer::core {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

#if defined(__linux__)

void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t expected) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void wake_all(const std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

#else

void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t expected) noexcept {
  if (word.load(std::memory_order_relaxed) == expected) ::sched_yield();
}

void wake_all(const std::atomic<std::uint32_t>&) noexcept {}

#endif

}  // namespace llminfer::core
