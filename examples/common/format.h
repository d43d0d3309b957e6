// Numbers for people to read.
#pragma once

#include <cstdint>
#include <string>

namespace examples {

/// printf into a string; the result is at most 1,023 bytes long.
[[gnu::format(printf, 1, 2)]] std::string print(const char* format, ...);

/// "98.4 MB": powers of ten, as disks and bandwidths are counted.
std::string bytes_text(std::uint64_t bytes);

}  // namespace examples
