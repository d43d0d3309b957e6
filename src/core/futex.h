// Sleeping until a word of memory changes, as std::atomic::wait does, but at once: the standard library's yields first,
// which on a busy machine gives the core away for a whole time slice. Where there is no such call, it yields.
#pragma once

#include <atomic>
#include <cstdint>

namespace llminfer::core {

/// Sleeps until somebody calls wake_all for the word; not at all if its value is not `expected` any more. May also
/// return without reason.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t expected) noexcept;
void wake_all(const std::atomic<std::uint32_t>& word) noexcept;

}  // namespace llminfer::core
