// Blocks of a multiprocessor, for machine_code/in_flight.py: reads lines "architecture registers static_shared threads"
// (80 40 1024 256) and answers each with a number.
#include "runtime/occupancy.h"

#include <cstdio>

namespace {

/// The parts of a multiprocessor as the programming guide's table has them.
bool chip_of(int architecture, ptxsim::Chip& chip) {
  chip.major = architecture / 10;
  chip.minor = architecture % 10;
  switch (architecture) {
    case 80:
      return true;
    case 90:
    case 100:
      chip.shared_per_multiprocessor = 228 * 1024;
      chip.shared_per_block_optin = 227 * 1024;
      return true;
    case 86:
    case 89:
    case 120:
      chip.threads_per_multiprocessor = 1536;
      chip.shared_per_multiprocessor = 100 * 1024;
      chip.shared_per_block_optin = 99 * 1024;
      return true;
    default:
      return false;
  }
}

}  // namespace

int main() {
  int architecture = 0, registers = 0, shared = 0, threads = 0;
  while (std::scanf("%d %d %d %d", &architecture, &registers, &shared, &threads) == 4) {
    ptxsim::Chip chip;
    if (shared < 0 || !chip_of(architecture, chip)) {
      std::fprintf(stderr, "no such architecture: %d\n", architecture);
      return 1;
    }
    const ptxsim::runtime::KernelNeeds needs{registers, static_cast<std::size_t>(shared), 0};
    std::printf("%d\n", ptxsim::runtime::blocks_per_multiprocessor(chip, needs, threads, 0));
  }
  return 0;
}
