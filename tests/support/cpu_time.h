// Processor time of this process: a busy machine does not make a test of it fail.
#pragma once

#include <ctime>

namespace llminfer::test {

/// Seconds, of all threads, from an arbitrary beginning.
inline double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace llminfer::test
